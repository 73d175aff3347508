//! Numbered pages of lists. Cursors, for long lists, are in `cursor`.

use super::query::Parameter;
use crate::domain::field_errors::FieldErrors;

/// The largest page number; larger ones are clamped to it. No list reaches that far.
const LAST_PAGE: u32 = 1_000_000_000;

/// The sizes that the pages of a list can have.
#[derive(Clone, Copy)]
pub(super) struct PageSizes {
    pub(super) default: u32,
    pub(super) max: u32,
}

impl PageSizes {
    /// Reads `pageSize` and its alias `limit`. `pageSize` takes precedence.
    pub(super) fn read(self, size: Parameter, limit: Parameter, errors: &mut FieldErrors) -> u32 {
        let limit = limit.clamped("limit", (1, self.max), errors);
        size.clamped("pageSize", (1, self.max), errors).or(limit).unwrap_or(self.default)
    }
}

/// A requested page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paging {
    /// The number of the page, counted from 1.
    pub(super) page: u32,
    /// The maximum number of items on the page.
    pub(super) size: u32,
}

impl Paging {
    /// Reads `page`. A page has at most `size` items.
    pub(super) fn read(page: Parameter, size: u32, errors: &mut FieldErrors) -> Self {
        Self { page: page.clamped("page", (1, LAST_PAGE), errors).unwrap_or(1), size }
    }

    /// Returns the number of items before the page.
    pub(super) fn offset(self) -> u64 {
        u64::from(self.page - 1) * u64::from(self.size)
    }

    /// Returns the number of pages that `total` items fill.
    pub(super) fn pages(self, total: u64) -> u64 {
        total.div_ceil(u64::from(self.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_an_alias_and_bounds() {
        let sizes = PageSizes { default: 10, max: 100 };
        let given = |text: &str| Parameter::of(text);
        for (page, page_size, limit, expected) in [
            ("", "", "", (1, 10)),
            ("3", "", "7", (3, 7)),
            ("", "5", "7", (1, 5)),
            ("0", "0", "", (1, 1)),
            ("-4", "1000", "", (1, 100)),
        ] {
            let mut errors = FieldErrors::new();
            let size = sizes.read(given(page_size), given(limit), &mut errors);
            let paging = Paging::read(given(page), size, &mut errors);
            assert_eq!((paging.page, paging.size), expected, "{page} {page_size} {limit}");
            assert_eq!(errors, FieldErrors::new());
        }
        let paging = Paging { page: 3, size: 7 };
        assert_eq!(
            (paging.offset(), paging.pages(0), paging.pages(7), paging.pages(8)),
            (14, 0, 1, 2)
        );
    }
}

//! Numbered pages of lists. Cursors, for long lists, are in `cursor`.

use super::query::QueryParameters;

/// The largest page number; larger ones are clamped to it. No list reaches that far.
const LAST_PAGE: u32 = 1_000_000_000;

/// A requested page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paging {
    /// The number of the page, counted from 1.
    pub(super) page: u32,
    /// The maximum number of items on the page.
    pub(super) size: u32,
}

impl Paging {
    /// Reads `page` and `pageSize`. `limit` is an alias of `pageSize`, which takes precedence.
    pub(super) fn read(query: &mut QueryParameters, default_size: u32, max_size: u32) -> Self {
        let page = query.clamped("page", 1, LAST_PAGE).unwrap_or(1);
        let limit = query.clamped("limit", 1, max_size);
        let size = query.clamped("pageSize", 1, max_size).or(limit).unwrap_or(default_size);
        Self { page, size }
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
        for (query, page, size) in [
            ("", 1, 10),
            ("page=3&limit=7", 3, 7),
            ("pageSize=5&limit=7", 1, 5),
            ("page=0&pageSize=0", 1, 1),
            ("page=-4&pageSize=1000", 1, 100),
        ] {
            let paging = Paging::read(&mut QueryParameters::parse(query), 10, 100);
            assert_eq!(paging, Paging { page, size }, "{query}");
        }
        let paging = Paging { page: 3, size: 7 };
        assert_eq!(
            (paging.offset(), paging.pages(0), paging.pages(7), paging.pages(8)),
            (14, 0, 1, 2)
        );
    }
}

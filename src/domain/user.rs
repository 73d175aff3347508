//! Users: their addresses and roles.

use std::fmt;
use std::str::FromStr;

use chrono_tz::Tz;

use super::names::names;

names! {
    /// The permissions of a user in an account. Each role includes the permissions of the ones
    /// before it.
    Role {
        /// May view everything.
        Viewer = "viewer",
        /// May also change schedules and channels.
        Member = "member",
        /// May also manage users, invitations and keys.
        Owner = "owner",
    }
}

impl Role {
    /// Returns `true` if this role includes the permissions of `needed`.
    pub fn allows(self, needed: Self) -> bool {
        self.rank() >= needed.rank()
    }

    const fn rank(self) -> u8 {
        match self {
            Self::Viewer => 0,
            Self::Member => 1,
            Self::Owner => 2,
        }
    }
}

/// A user's display settings for times on pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeDisplay {
    /// The zone; `None` for the zone of the browser.
    pub zone: Option<Tz>,
    /// `true` for times such as `5:40 PM`, `false` for times such as `17:40`.
    pub has_12_hour_clock: bool,
}

/// The maximum length of an address that mail servers accept, in bytes.
const MAX_ADDRESS: usize = 254;
/// The maximum length of the part before the `@`, in bytes.
const MAX_LOCAL: usize = 64;

/// An e-mail address in its normal form: lower case, an international domain as `xn--…`. It
/// contains only letters, digits and `.!#$%&'*+/=?^_{|}~-` and the grave accent, so it can be
/// written into any mail header without quoting.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EmailAddress(String);

/// The error for a text that is not a usable e-mail address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("must be an e-mail address such as ann@example.com")]
pub struct InvalidAddress;

impl EmailAddress {
    /// Returns its normal form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for EmailAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let text = text.trim_matches(' ');
        // An international domain is longer in its normal form, never shorter.
        if text.len() > MAX_ADDRESS {
            return Err(InvalidAddress);
        }
        let (local, domain) = text.rsplit_once('@').ok_or(InvalidAddress)?;
        let plain =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+/=?^_`{|}~-".contains(&byte);
        let is_local = local.len() <= MAX_LOCAL
            && local.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(plain));
        let domain = normal_domain(domain).filter(|_| is_local).ok_or(InvalidAddress)?;
        let address = format!("{}@{domain}", local.to_ascii_lowercase());
        if address.len() <= MAX_ADDRESS { Ok(Self(address)) } else { Err(InvalidAddress) }
    }
}

fn normal_domain(domain: &str) -> Option<String> {
    let url::Host::Domain(domain) = url::Host::parse(domain).ok()? else { return None };
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    domain.split('.').all(is_label).then_some(domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_normal_form() {
        for (given, normal) in [
            ("ann@example.com", "ann@example.com"),
            (" Ann.B+tag@EXAMPLE.com ", "ann.b+tag@example.com"),
            ("a@bücher.example", "a@xn--bcher-kva.example"),
            ("root@localhost", "root@localhost"),
        ] {
            let address: EmailAddress = given.parse().expect(given);
            assert_eq!(address.as_str(), normal);
            assert_eq!(normal.parse(), Ok(address));
        }
    }

    #[test]
    fn addresses_that_could_end_a_header_are_refused() {
        let (long, deep) =
            (format!("{}@a.de", "a".repeat(65)), format!("a@{}de", "a.".repeat(126)));
        for wrong in [
            "",
            "a",
            "@",
            "a@",
            "@a.de",
            "a b@a.de",
            "a@a.de\r\nBcc: b@b.de",
            "a\n@a.de",
            "a@a.de,b@b.de",
            "<a@a.de>",
            "a@b@c.de",
            "\"a b\"@a.de",
            "a..b@a.de",
            ".a@a.de",
            "a@127.0.0.1",
            "a@[::1]",
            "a@a..de",
            "a@-a.de",
            "a@a_b.de",
            "a@a.de.",
            "é@a.de",
            "a@a.de\0",
            &long,
            &deep,
        ] {
            assert_eq!(wrong.parse::<EmailAddress>(), Err(InvalidAddress), "{wrong:?}");
        }
    }

    #[test]
    fn roles_include_the_ones_before() {
        assert!(Role::Owner.allows(Role::Viewer) && Role::Member.allows(Role::Member));
        assert!(!Role::Viewer.allows(Role::Member) && !Role::Member.allows(Role::Owner));
    }
}

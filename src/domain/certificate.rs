//! Reads the expiry of a certificate from its DER form (RFC 5280, 4.1).

use chrono::NaiveDateTime;

use super::Timestamp;

const SEQUENCE: u8 = 0x30;
/// The version, which certificates of version 1 leave out.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Returns the last instant at which a certificate is valid; `None` if the bytes are not a
/// certificate.
pub fn expiry(der: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (signed, _) = element(certificate, SEQUENCE)?;
    let mut rest = signed;
    if rest.first() == Some(&VERSION) {
        rest = any(rest)?.2;
    }
    // The serial number, the algorithm and the issuer precede the validity.
    for _ in 0..3 {
        rest = any(rest)?.2;
    }
    let (validity, _) = element(rest, SEQUENCE)?;
    let (_, _, rest) = any(validity)?;
    let (kind, time, _) = any(rest)?;
    let text = std::str::from_utf8(time).ok()?;
    let text = match kind {
        // Years have two digits: 50 to 99 mean 1950 to 1999.
        UTC_TIME if text.get(..2)? >= "50" => format!("19{text}"),
        UTC_TIME => format!("20{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let time = NaiveDateTime::parse_from_str(&text, "%Y%m%d%H%M%SZ").ok()?;
    Some(Timestamp::from_millis(time.and_utc().timestamp_millis()))
}

/// Returns the content of the first element, which must be of this kind, and the bytes after it.
fn element(der: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any(der)?;
    (found == kind).then_some((content, rest))
}

/// Returns the kind and the content of the first element, and the bytes after it.
fn any(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&kind, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        // No certificate needs a longer length.
        if digits.is_empty() || digits.len() > 4 {
            return None;
        }
        (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((kind, content, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn made(year: i32) -> Vec<u8> {
        let mut params = CertificateParams::new(["a.example".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(1975, 1, 1);
        params.not_after = date_time_ymd(year, 2, 3);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn both_forms_of_time_are_read() {
        // From 2050 on the year has four digits.
        for year in [1999, 2031, 2049, 2050, 4000] {
            let read = expiry(&made(year)).expect("a certificate").to_string();
            assert_eq!(read, format!("{year}-02-03T00:00:00.000Z"));
        }
    }

    #[test]
    fn a_cut_certificate_has_no_time() {
        let whole = made(2031);
        for length in 0..whole.len() / 2 {
            assert_eq!(expiry(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut altered = whole.clone();
                altered[at] = value;
                // The call must return without a panic.
                let _ = expiry(&altered);
            }
        }
    }
}

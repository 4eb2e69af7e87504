//! A file is whole or it is not: every way to be something in between.

use std::io::Write as _;

use super::*;
use crate::proxy::media_store::disk::write_all_at;

const DATA: &[u8] = b"the bytes of a small picture";

fn key(digit: char) -> FileKey {
    FileKey::from_name(&digit.to_string().repeat(64)).unwrap()
}

fn meta() -> FileMeta {
    FileMeta::new(Some("image/png".to_owned()), Some("inline; filename=\"a\\\"\u{e9}.png\"".to_owned()))
}

/// A whole file, as bytes.
fn whole(key: &FileKey, meta: &FileMeta, data: &[u8]) -> (Vec<u8>, Extent) {
    let head = Head::new(key, meta).unwrap();
    let (end, extent) = head.end(to_u64(data.len()), 1_700_000_000_123);
    ([head.bytes(), data, &end].concat(), extent)
}

fn inspected(bytes: &[u8]) -> Option<Inspected> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    inspect(&file).unwrap()
}

#[test]
fn a_whole_file_says_what_was_stored() {
    let longest = FileMeta::new(Some("\0".repeat(255)), Some("\u{1}".repeat(1024)));
    for meta in [meta(), FileMeta::default(), longest] {
        for data in [DATA, b""] {
            let (bytes, extent) = whole(&key('a'), &meta, data);
            assert_eq!(extent.file_bytes(), to_u64(bytes.len()));
            let says = inspected(&bytes).unwrap();
            assert_eq!(says, Inspected { key: key('a'), meta: meta.clone(), extent });
            let (start, length) = (usize::try_from(extent.head_bytes).unwrap(), data.len());
            assert_eq!(&bytes[start..start + length], data);
        }
    }
}

#[test]
fn a_file_that_ends_anywhere_else_is_torn() {
    let (bytes, _) = whole(&key('a'), &meta(), DATA);
    for length in 0..bytes.len() {
        assert_eq!(inspected(&bytes[..length]), None, "cut after {length}");
    }
    for more in 1..50 {
        assert_eq!(inspected(&[&bytes[..], &vec![0; more]].concat()), None, "{more} bytes too many");
    }
}

#[test]
fn any_other_bit_of_head_or_end_is_found_out() {
    let (bytes, extent) = whole(&key('a'), &meta(), DATA);
    let head = usize::try_from(extent.head_bytes).unwrap();
    for at in (0..head).chain(head + DATA.len()..bytes.len()) {
        for bit in 0..8 {
            let mut other = bytes.clone();
            other[at] ^= 1 << bit;
            assert_eq!(inspected(&other), None, "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_file_put_together_of_two_is_torn() {
    let (one, extent) = whole(&key('a'), &meta(), DATA);
    let (two, _) = whole(&key('b'), &meta(), DATA);
    let end = one.len() - END_BYTES;
    assert_eq!(two.len(), one.len());
    assert_eq!(inspected(&[&one[..end], &two[end..]].concat()), None);
    // The old end, with a byte of the file gone from its middle.
    let middle = usize::try_from(extent.head_bytes).unwrap();
    assert_eq!(inspected(&[&one[..middle], &one[middle + 1..]].concat()), None);
}

#[test]
fn a_file_of_zeros_is_torn_whatever_its_length() {
    for length in [0, 1, 12, 28, 68, 4096] {
        assert_eq!(inspected(&vec![0; length]), None, "{length}");
    }
    // As a crash leaves it where the size reached the disk and the bytes did not.
    let (bytes, _) = whole(&key('a'), &meta(), DATA);
    let file = tempfile::tempfile().unwrap();
    file.set_len(to_u64(bytes.len())).unwrap();
    write_all_at(&file, &bytes[..bytes.len() / 2], 0).unwrap();
    assert_eq!(inspect(&file).unwrap(), None);
}

#[test]
fn a_head_that_claims_to_be_huge_costs_no_memory() {
    let mut bytes = HEAD_MAGIC.to_vec();
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes.resize(20_000, b'x');
    assert_eq!(inspected(&bytes), None);
}

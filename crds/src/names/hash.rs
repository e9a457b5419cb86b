//! Decides the hashes inside derived names: FNV-1a, because names made with it exist in clusters.
//! Never protects anything: it tells names apart, and nothing more.

/// FNV-1a, 32 bits.
pub fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// FNV-1a, 64 bits.
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// [`fnv1a_32`] as it appears in names: eight lower-case hex digits.
pub fn hex32(bytes: &[u8]) -> String {
    format!("{:08x}", fnv1a_32(bytes))
}

/// [`fnv1a_64`] as it appears in names: sixteen lower-case hex digits.
pub fn hex64(bytes: &[u8]) -> String {
    format!("{:016x}", fnv1a_64(bytes))
}

/// Two texts as one input: a zero byte between them, which neither can contain.
pub(super) fn joined(first: &str, second: &str) -> Vec<u8> {
    [first.as_bytes(), &[0], second.as_bytes()].concat()
}

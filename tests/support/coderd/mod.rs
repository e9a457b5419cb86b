//! A strict double of coderd.

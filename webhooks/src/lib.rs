//! Pure admission: what an object becomes (defaults) and why it is refused (rules).
//! It takes values and returns values; it never talks to a cluster, a clock or a file.

//! Tree to C.

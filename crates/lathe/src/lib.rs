//! The session that joins the crates of Lathe.

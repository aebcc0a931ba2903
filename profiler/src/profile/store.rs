//! Draft

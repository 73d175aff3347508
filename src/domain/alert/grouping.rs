//! Which alerts are told together: incidents and digests.

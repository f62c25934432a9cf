//! What the server tells us.
//!
//! | file | what is in it |
//! |---|---|
//! | `datatype` | saving, loading, copying, freeing; where values are boxed |
//! | `hooks` | keyspace events, flush, swap, role, loading, cron |
//! | `info` | the section of INFO |

pub(crate) mod datatype;
pub(crate) mod hooks;
pub(crate) mod info;

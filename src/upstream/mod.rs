//! What stands behind this program, from our side: clients for other servers. Whoever calls has asked
//! the gate before.

pub mod server;

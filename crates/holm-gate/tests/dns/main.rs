//! The gate's resolver, from outside: a client's datagrams and streams on one side, a server of names
//! that the test wrote on the other.

mod client;
mod hostile;
mod policy;
mod servers;
mod upstream;

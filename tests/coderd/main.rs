//! Everything that talks to coderd or its database: the client against the double, access against a real PostgreSQL.

mod client;
mod database;

//! The same for a provisioner: every call to coderd, and every write to the API server, that its key, its children and its end
//! take. Whatever goes wrong is told, nothing is lost by it, and one key is there when it is over.

mod cell;
mod subject;
mod table;
mod write_cell;
mod writes;

use crate::env::{MatrixEnv, Plane};

/// A cell of either table.
#[derive(Debug, Clone, Copy)]
pub enum Cell {
    /// Between the operator and coderd.
    Call(table::Cell),
    /// Between the operator and the API server.
    Write(writes::Cell),
}

impl Cell {
    /// A name that can be part of a namespace's.
    pub fn name(&self) -> String {
        match self {
            Self::Call(cell) => cell.name(),
            Self::Write(cell) => cell.name(),
        }
    }
}

/// Runs a cell to its end.
pub async fn run(env: &MatrixEnv, plane: &Plane, cell: Cell) {
    match cell {
        Cell::Call(cell) => cell::run(env, plane, cell).await,
        Cell::Write(cell) => write_cell::run(env, plane, cell).await,
    }
}

/// Every cell of the calls.
pub fn calls() -> Vec<Cell> {
    table::whole().into_iter().map(Cell::Call).collect()
}

/// Every cell of the writes.
pub fn writes() -> Vec<Cell> {
    writes::whole().into_iter().map(Cell::Write).collect()
}

/// A part of both.
pub fn representative() -> Vec<Cell> {
    let calls = table::representative().into_iter().map(Cell::Call);
    calls.chain(writes::representative().into_iter().map(Cell::Write)).collect()
}

//! The answer of every command in every state, as `docs/states.md` has it. The page is
//! the table of the tests: there is no other.

/// The page.
const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/states.md"));

/// The tables of the page: each a head line and 16 rows, cells by `|`.
pub(crate) fn tables() -> Vec<Vec<Vec<&'static str>>> {
    let mut tables: Vec<Vec<Vec<&str>>> = Vec::new();
    let mut within = false;
    for line in PAGE.lines() {
        let starts = line.starts_with("| state met |");
        within = starts || (within && line.starts_with('|'));
        if !within || line.starts_with("| ---") {
            continue;
        }
        let inner = line.trim_start_matches('|').trim_end_matches('|');
        let cells = inner.split('|').map(str::trim).collect();
        if starts {
            tables.push(Vec::new());
        }
        if let Some(table) = tables.last_mut() {
            table.push(cells);
        }
    }
    tables
}

/// The cell of a column in the row of a state.
#[allow(dead_code, reason = "the core's test goes through whole tables")]
#[track_caller]
pub(crate) fn cell(column: &str, row: &str) -> &'static str {
    let found = tables().iter().find_map(|table| {
        let (head, rows) = table.split_first()?;
        let at = head.iter().position(|name| *name == column)?;
        let cells = rows.iter().find(|cells| cells.first() == Some(&row))?;
        cells.get(at).copied()
    });
    found.unwrap_or_else(|| panic!("docs/states.md has no {column:?} in {row:?}"))
}

/// The outcome word of a cell: what stands before its remark.
pub(crate) fn word(cell: &str) -> &str {
    cell.split([',', ' ']).next().unwrap_or_default()
}

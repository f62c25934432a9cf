//! Words that everybody uses: the grammar, the rules, the saved form and the shell.
//! Pure, and on the ground floor: nothing here imports anything of the crate.
//!
//! | room | what is in it |
//! |---|---|
//! | `state` | the states of an order |
//! | `time` | the two clocks as values, and the largest moment |
//! | `limits` | how many bytes an id, a status, an owner and the others may have |
//! | `decimal` | numbers as text |
//! | `glob` | patterns for ids |

pub mod decimal;
pub mod glob;
pub mod limits;
pub mod state;
pub mod time;

//! Answers as short lines: moments, orders, announcements.

use std::fmt::Write as _;

use super::{Bench, START_MS};
use crate::engine::outcome::Announcement;
use crate::words::time::WallMs;

impl Bench {
    /// Where a wall moment lies in the story.
    pub(in crate::engine::tests) fn at(wall: WallMs) -> String {
        format!("{:+}", wall.0 as i64 - START_MS as i64)
    }

    /// The order as it stands, in one line.
    pub(super) fn get(&self, id: &[u8]) -> String {
        let Some(view) = self.queue.view(&self.now(), id) else {
            return "null".into();
        };
        let mut said = view.state.word().to_owned();
        let mut add = |name: &str, text: String| {
            let _ = write!(said, " {name}{text}");
        };
        if let Some(deadline) = view.deadline {
            add("", Self::at(deadline));
        }
        if !view.status.is_empty() {
            add("status:", view.status.escape_ascii().to_string());
        }
        if view.attempt > 0 {
            add("#", view.attempt.to_string());
        }
        if let Some(owner) = view.owner {
            add("owner:", owner.escape_ascii().to_string());
        }
        if let Some(lease_ms) = view.lease_ms {
            add("lease:", lease_ms.to_string());
        }
        if view.holds > 1 {
            add("x", view.holds.to_string());
        }
        if let Some(at) = view.retry_at {
            add("retry:", Self::at(at));
        }
        if let Some(at) = view.keep_end {
            add("keep:", Self::at(at));
        }
        if let Some(at) = view.finished_at {
            add("at:", Self::at(at));
        }
        if let Some(deadline) = view.finished_deadline {
            add("of:", Self::at(deadline));
        }
        for (name, text) in [
            ("payload:", view.payload),
            ("result:", view.result),
            ("error:", view.error),
        ] {
            if let Some(text) = text {
                add(name, text.escape_ascii().to_string());
            }
        }
        said
    }

    /// Announcements in one line.
    pub(in crate::engine::tests) fn announcements(list: &[Announcement]) -> String {
        let each: Vec<String> = list
            .iter()
            .map(|one| {
                let name = one
                    .kind
                    .name()
                    .to_str()
                    .unwrap()
                    .trim_start_matches("order.")
                    .to_owned();
                format!("{name}:{}", one.id.escape_ascii())
            })
            .collect();
        if each.is_empty() {
            "-".into()
        } else {
            each.join(" ")
        }
    }
}

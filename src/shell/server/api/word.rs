//! Words that are replied again and again, and never change.
//!
//! A byte string is put into a reply in three parts: its length, its bytes, a line end.
//! A reply that the server itself has made before is put there whole. So each word is
//! asked of the server once (`ECHO`), and its answer is kept. Where there is none, a word is
//! replied as any byte string.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::call::{OK, api};
use super::context::Ctx;

/// A word.
pub(crate) struct Word {
    /// The word.
    text: &'static str,
    /// The server's reply that is this word; null before [`Word::prepare`], or where the
    /// server has none.
    reply: AtomicPtr<raw::RedisModuleCallReply>,
}

impl Word {
    /// A word that is not prepared yet.
    pub(crate) const fn new(text: &'static str) -> Self {
        Self {
            text,
            reply: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The word.
    #[cfg(test)]
    pub(crate) const fn text(&self) -> &'static str {
        self.text
    }

    /// Asks the server for the reply that is this word. Once, where calls of other
    /// commands are safe.
    pub(crate) fn prepare(&self, ctx: Ctx) {
        let (Some(call), Some(free), Some(kind)) = (
            api!(RedisModule_Call),
            api!(RedisModule_FreeCallReply),
            api!(RedisModule_CallReplyType),
        ) else {
            return;
        };
        // SAFETY: the format names a buffer with its length.
        let reply = unsafe {
            call(
                ctx.as_ptr(),
                c"ECHO".as_ptr(),
                c"b".as_ptr(),
                self.text.as_ptr(),
                self.text.len(),
            )
        };
        if reply.is_null() {
            return;
        }
        // SAFETY: the reply was just given to us.
        if unsafe { kind(reply) } == raw::REDISMODULE_REPLY_STRING as c_int {
            // Kept for ever: it belongs to no context once the call has returned.
            self.reply.store(reply, Ordering::Relaxed);
        } else {
            // SAFETY: freed once.
            unsafe { free(reply) };
        }
    }
}

impl Ctx {
    /// A word.
    pub(crate) fn reply_word(self, word: &Word) {
        let reply = word.reply.load(Ordering::Relaxed);
        if let Some(call) = api!(RedisModule_ReplyWithCallReply)
            && !reply.is_null()
            // SAFETY: the context of this callback and a reply that is never freed.
            && unsafe { call(self.as_ptr(), reply) } == OK
        {
            return;
        }
        self.reply_bytes(word.text.as_bytes());
    }
}

//! A clock that a test can set while a server runs.
//!
//! The server sees its clock through a small library that is built here and loaded
//! before the others; it adds a number from a file to the wall clock, or has it stand
//! still, and leaves the monotonic clock alone. Valkey from 8.1 on opens its modules in
//! a way that passes such a library by (`RTLD_DEEPBIND`), so it opens them too.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Options;

/// The library's text.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Microseconds to add to the wall clock; where it stands still, 0: it goes. */
static volatile int64_t *ahead;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("ORDERWHEEL_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return;
    void *map = mmap(NULL, 2 * sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) ahead = map;
}

static int64_t wall_us(void) {
    if (ahead && ahead[1]) return ahead[1];
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + (ahead ? *ahead : 0);
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return (int)syscall(SYS_clock_gettime, clock, out);
    int64_t us = wall_us();
    out->tv_sec = us / 1000000;
    out->tv_nsec = us % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone;
    int64_t us = wall_us();
    out->tv_sec = us / 1000000;
    out->tv_usec = us % 1000000;
    return 0;
}

time_t time(time_t *out) {
    time_t now = (time_t)(wall_us() / 1000000);
    if (out) *out = now;
    return now;
}

void *dlopen(const char *path, int flags) {
    static void *(*next)(const char *, int);
    if (!next) next = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return next(path, flags & ~RTLD_DEEPBIND);
}
"#;

/// A clock that can be set.
pub(crate) struct Clock {
    /// Where the difference to the machine's clock is.
    file: File,
    /// Where that and the built library are.
    dir: PathBuf,
}

impl Clock {
    /// One that goes by the machine's.
    pub(crate) fn new() -> Self {
        static CLOCKS: AtomicU64 = AtomicU64::new(0);
        let number = CLOCKS.fetch_add(1, Ordering::Relaxed);
        let dir =
            std::env::temp_dir().join(format!("orderwheel-clock-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("a temporary directory can be made");
        fs::write(dir.join("clock.c"), SHIM).expect("a file can be written");
        let status = Command::new("cc")
            .current_dir(&dir)
            .args([
                "-O1", "-shared", "-fPIC", "-o", "clock.so", "clock.c", "-ldl",
            ])
            .status()
            .expect("cc can be started: Rust needs a C compiler too");
        assert!(status.success(), "cc: {status}");
        let file = File::create(dir.join("ahead")).expect("a file can be made");
        let clock = Self { file, dir };
        clock.set_ahead(0);
        clock
    }

    /// Sets it this many milliseconds ahead of the machine's.
    pub(crate) fn set_ahead(&self, ms: i64) {
        self.file
            .write_all_at(&(ms * 1000).to_ne_bytes(), 0)
            .expect("the file can be written");
    }

    /// Has it stand still at this moment, Unix microseconds.
    pub(crate) fn stand_still(&self, us: u64) {
        self.file
            .write_all_at(&us.to_ne_bytes(), 8)
            .expect("the file can be written");
    }

    /// Has it go on.
    pub(crate) fn go_on(&self) {
        self.stand_still(0);
    }

    /// Has a server go by it.
    pub(crate) fn rule(&self, options: Options) -> Options {
        options
            .env(
                "LD_PRELOAD",
                &self.dir.join("clock.so").display().to_string(),
            )
            .env(
                "ORDERWHEEL_TEST_CLOCK",
                &self.dir.join("ahead").display().to_string(),
            )
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // It is in the temporary directory anyway.
        drop(fs::remove_dir_all(&self.dir));
    }
}

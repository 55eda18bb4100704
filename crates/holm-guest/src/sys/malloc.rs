//! Keeps the allocator small: a guest at rest must hold less than a megabyte.

/// One arena, and blocks over 128 KiB given back as soon as they are freed. glibc's default moves
/// that threshold up with use, so that one large reply would stay in memory for ever.
pub fn tune() {
    // SAFETY: mallopt takes plain integers and is called before any other thread exists.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 10);
    }
}

/// Gives free pages back to the kernel.
pub fn trim() {
    // SAFETY: malloc_trim may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

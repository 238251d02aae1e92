/// What AddressSanitizer's runtime of every test program asks for, whoever starts the program.

/// Before gcc 14 and LLVM 17 the runtime takes every block of dynamic TLS that begins 16 bytes into
/// a page for one of glibc 2.19 to 2.24, and what stands before it for its address and size. In a
/// program that has opened a library with thread_local variables LeakSanitizer then reads from
/// nowhere and crashes at the end ("Tracer caught signal 11",
/// https://github.com/google/sanitizers/issues/1322).
extern "C" const char* __asan_default_options();   // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "intercept_tls_get_addr=0";
}

// Linked into each binary whose libraries are instrumented by the address sanitizer.

// Three frames of each allocation are kept, not 30. Code without instrumentation has no frame pointers, and the
// sanitizer would record ever new false stacks in it. For a thorough report set ASAN_OPTIONS=malloc_context_size=30.
extern "C" const char* __asan_default_options() { return "malloc_context_size=3"; }  // NOLINT: the sanitizer's name

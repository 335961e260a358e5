// Linked into each binary whose libraries are instrumented by the address sanitizer.

// Three frames of each allocation are kept, not 30: code that is not instrumented has no frame pointers, and the
// sanitizer finds ever new stacks in what it takes for them. A thorough report needs
// ASAN_OPTIONS=malloc_context_size=30.
extern "C" const char* __asan_default_options() { return "malloc_context_size=3"; }  // NOLINT: the sanitizer's name

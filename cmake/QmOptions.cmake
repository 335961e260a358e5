# Language level, warnings, sanitizers, and the two build accelerators (ccache, mold) where they exist.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
# Some libraries require these. All targets get them, because a precompiled header is usable only with the same options.
add_compile_options(-pthread)
add_compile_definitions(_FILE_OFFSET_BITS=64)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

set(QM_SANITIZE "" CACHE STRING "Comma separated -fsanitize list, empty for none")
if(QM_SANITIZE)
  add_compile_options(-fsanitize=${QM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${QM_SANITIZE})
endif()

# The options that dpkg-buildflags gives every Debian program (hardening=+all); tests/hardening checks the shipped
# programs. Debian's compilers make position-independent executables by default. The sanitizers do not see memory that
# fortified functions access.
add_compile_options(-fstack-protector-strong)
if(NOT QM_SANITIZE)
  add_compile_options(-D_FORTIFY_SOURCE=2)
endif()
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)

find_program(QM_CCACHE ccache)
if(QM_CCACHE)
  # These settings let ccache cache objects that were compiled with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${QM_CCACHE})
endif()
# GCC collects garbage from 128 MiB on at the latest; most files need less than 512 and are then compiled without a
# collection, which saves a tenth of the processor time (docs/results/build.md).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("SHELL:--param ggc-min-heapsize=524288")
endif()
find_program(QM_MOLD mold)
if(QM_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Our own code is compiled with these warnings; generated code and third-party headers are not.
set(QM_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough -Werror
    -Wno-missing-field-initializers)
if(QM_SANITIZE)
  # With instrumentation, GCC 12 reports members of a variant as uninitialized where they are not.
  list(APPEND QM_WARNINGS -Wno-maybe-uninitialized)
endif()

# Libraries and engines under the address and undefined behavior sanitizers, without a second build of the tree.
#
# Each library of ours that a core test links is compiled a second time, instrumented, as the object library
# <library>_asan. The objects of the test itself are those of the plain binary; linked with the instrumented ones they
# form <test>_asan. The instrumented objects are first on the linker's command line, so that of an inline function or
# a template in both the instrumented copy is kept.

# Not instrumented: replays of recorded data for the tests, and generated code, because Debian's protobuf and gRPC are
# not.
set(QM_NOT_INSTRUMENTED qm_testing qm_proto qm_golden qm_kueue_vectors qm_openb qm_philly qm_headroom qm_forecast_trace)

# Excluded are checks of pointers whose use the address sanitizer checks as well, and of alignment, because no code
# here casts to a stricter one: they are a third of the compile time.
set(QM_ASAN_OPTIONS -O1 -g1 -U_FORTIFY_SOURCE -fsanitize=address,undefined
    -fno-sanitize=null,alignment,pointer-overflow,object-size,nonnull-attribute,returns-nonnull-attribute
    -fno-omit-frame-pointer -fno-sanitize-recover=undefined $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)

function(qm_asan_library library)
  if(TARGET ${library}_asan)
    return()
  endif()
  get_target_property(sources ${library} SOURCES)
  get_target_property(folder ${library} SOURCE_DIR)
  list(TRANSFORM sources PREPEND ${folder}/ REGEX "^[^/]")
  add_library(${library}_asan OBJECT EXCLUDE_FROM_ALL ${sources})
  foreach(source ${sources})
    get_source_file_property(alone ${source} TARGET_DIRECTORY ${library} SKIP_UNITY_BUILD_INCLUSION)
    if(alone)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS LINK_LIBRARIES UNITY_BUILD UNITY_BUILD_BATCH_SIZE COMPILE_OPTIONS)
    get_target_property(value ${library} ${property})
    if(NOT value STREQUAL "value-NOTFOUND")
      set_target_properties(${library}_asan PROPERTIES ${property} "${value}")
    endif()
  endforeach()
  target_compile_options(${library}_asan PRIVATE ${QM_ASAN_OPTIONS})
  if(QM_TOGETHER)
    # Larger batches than in builds that a developer waits for.
    set_target_properties(${library}_asan PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
    qm_prelude(qm_asan_prelude OPTIONS ${QM_WARNINGS} ${QM_ASAN_OPTIONS} LIBRARIES fmt::fmt)
    target_compile_options(${library}_asan PRIVATE ${QM_PRELUDE_OPTIONS})
    target_precompile_headers(${library}_asan REUSE_FROM qm_asan_prelude)
  endif()
endfunction()

# The direct and indirect dependencies of these targets: our own libraries with sources, and all others.
function(qm_linked ours others)
  set(found "")
  set(foreign "")
  set(seen "")
  set(next ${ARGN})
  while(next)
    list(POP_FRONT next library)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" library "${library}")
    if(TARGET ${library})
      get_target_property(real ${library} ALIASED_TARGET)
      if(real)
        set(library ${real})
      endif()
    endif()
    if(library IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${library})
    if(NOT TARGET ${library} OR NOT library MATCHES "^qm_")
      list(APPEND foreign ${library})
      continue()
    endif()
    get_target_property(type ${library} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND found ${library})
    endif()
    get_target_property(more ${library} INTERFACE_LINK_LIBRARIES)
    if(more)
      list(APPEND next ${more})
    endif()
  endwhile()
  set(${ours} ${found} PARENT_SCOPE)
  set(${others} ${foreign} PARENT_SCOPE)
endfunction()

add_library(qm_asan_defaults OBJECT EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/tests/support/asan/options.cpp)

# The plain library of an instrumented one is not linked: the linker would use its members for missing templates of the
# standard library, and then find duplicate definitions of the rest of such a member.
function(qm_asan_test test)
  get_target_property(links ${test} LINK_LIBRARIES)
  qm_linked(libraries others ${links})
  set(objects "")
  set(plain "")
  foreach(library ${libraries})
    if(library IN_LIST QM_NOT_INSTRUMENTED)
      list(APPEND plain ${library})
    else()
      qm_asan_library(${library})
      list(APPEND objects $<TARGET_OBJECTS:${library}_asan>)
    endif()
  endforeach()
  add_executable(${test}_asan EXCLUDE_FROM_ALL ${objects} $<TARGET_OBJECTS:${test}> $<TARGET_OBJECTS:qm_asan_defaults>)
  foreach(library ${plain})
    add_dependencies(${test}_asan ${library})
    target_link_libraries(${test}_asan PRIVATE $<TARGET_FILE:${library}>)
  endforeach()
  target_link_libraries(${test}_asan PRIVATE ${others})
  target_link_options(${test}_asan PRIVATE -fsanitize=address,undefined)
  qm_add_test(${test}_asan asan)
endfunction()

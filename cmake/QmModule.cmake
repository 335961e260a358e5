# A module is a folder with one CMakeLists.txt of a line or two; sources and tests are found by name.
#
#   qm_library(store DEPS qm::base PRIVATE_DEPS PkgConfig::pqxx)     -> target qm_store, alias qm::store
#   qm_program(qm-admission SOURCES main.cpp DEPS qm::admission)     -> build/<preset>/bin/qm-admission
#
#   qm_part(autoscaler pack DEPS qm::base OWN_HEADERS)               -> target qm_autoscaler_pack, alias qm::autoscaler_pack
#
# qm_part makes a library of src/NAME/*.cpp of a service, which publishes include/; with OWN_HEADERS its sources include
# headers of src/NAME. The tests of a part are named by qm_tests.
#
# qm_library compiles every src/*.cpp, publishes include/, and creates one test binary per suffix found under the
# module: *_test.cpp and *_prop_test.cpp -> <name>_test, *_pg_test.cpp -> <name>_pg_test, and so on. The suffix names
# the requirement of a test, which is also its ctest label. *_bench.cpp becomes <name>_bench.

# Folders that -DQM_SKIP=a;b excludes from the build.
set(QM_SKIP "" CACHE STRING "Folders to leave out of the build")

function(qm_add_directories)
  foreach(dir ${ARGN})
    if(dir IN_LIST QM_SKIP)
      continue()
    endif()
    if(EXISTS ${CMAKE_SOURCE_DIR}/${dir}/CMakeLists.txt)
      add_subdirectory(${CMAKE_SOURCE_DIR}/${dir} ${CMAKE_BINARY_DIR}/${dir})
    endif()
  endforeach()
endfunction()

# Most of the compile time of a file is spent on headers and template functions that its neighbors need too: several
# files compiled as one take less than half the time. A batch is small enough to compile in about ten seconds after
# one change. For this the names in unnamed namespaces differ within a library, and each test file has a namespace
# named after it.
option(QM_TOGETHER "Compile the files of libraries and tests in batches, with common headers precompiled" OFF)
function(qm_in_batches target size)
  if(QM_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # GCC treats a batch as one source and its files as headers
  endif()
endfunction()

# Headers that nearly every source includes, compiled once for all targets with the same options. GCC refuses a
# precompiled header that was compiled with other options (-Winvalid-pch). ccache requires -fpch-preprocess. With a
# precompiled header GCC 12 reports overflows in code of the standard library as if it were ours.
set(QM_PRELUDE_HEADERS <fmt/format.h> <algorithm> <chrono> <functional> <map> <memory> <optional> <set> <string> <thread> <variant>
  <vector>)
set(QM_PRELUDE_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess> $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
function(qm_prelude name)
  cmake_parse_arguments(arg "" "" "HEADERS;OPTIONS;DEFINITIONS;LIBRARIES" ${ARGN})
  if(TARGET ${name})
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cpp CONTENT "// Only its headers count.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${name}.cpp)
  target_compile_options(${name} PRIVATE ${arg_OPTIONS} ${QM_PRELUDE_OPTIONS})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS} ${QM_PRELUDE_HEADERS})
endfunction()

# Used for libraries only if they are compiled in batches: in the other presets each source must include what it uses.
function(qm_precompiled target)
  if(QM_TOGETHER)
    qm_prelude(qm_library_prelude OPTIONS ${QM_WARNINGS} LIBRARIES fmt::fmt)
    target_compile_options(${target} PRIVATE ${QM_PRELUDE_OPTIONS})
    target_precompile_headers(${target} REUSE_FROM qm_library_prelude)
  endif()
endfunction()

# Engines and the libraries of their decisions: their files are large and compiled for speed.
set(QM_ENGINES qm_admission_kueue qm_admission_volcano qm_admission_forecast qm_admission_engine qm_placement_pack qm_placement_gang
  qm_placement_bound qm_placement_engine qm_placement_mig qm_placement_relayout qm_placement_plan
  qm_autoscaler_pack qm_autoscaler_engine qm_telemetry_engine qm_cost_engine)
# Shells, programs around them, and libraries that only tests and replays link.
set(QM_SHELLS qm_admission_codec qm_admission qm_admission_webhook qm_admission_webhook_service qm_placement qm_autoscaler qm_telemetry
  qm_cost qm_sim qm_kueue_vectors qm_openb qm_testing qm-demo)
function(qm_together)
  foreach(target ${QM_ENGINES})
    qm_in_batches(${target} 3)
    qm_precompiled(${target})
  endforeach()
  foreach(target ${QM_SHELLS})
    if(TARGET ${target})
      qm_in_batches(${target} 5)
      qm_precompiled(${target})
    endif()
  endforeach()
endfunction()

set(QM_TEST_NEEDS pg redis kafka kube k8s moto e2e)

# Core tests are those of libraries and engines; they also run under sanitizers. Tests that link gRPC are excluded:
# Debian's gRPC is not instrumented, and its units would double the build. The fleet and the house rules are our own
# tools, neither library nor engine.
set(QM_NOT_CORE rpc_test replica_test admission_test placement_test autoscaler_test telemetry_test cost_test agent_test
    cli_test golden_test hardening_test sim_test cloud_contract_test contract_cloud_test contract_kube_test fleet_test tidy_test budgets_test
    proposals_test elastic_test hostile_test setting_pages_test)

# Finds the tests and benches next to a module's code. DEPS are linked to each binary.
function(qm_tests name)
  cmake_parse_arguments(arg "" "DIR" "DEPS" ${ARGN})
  if(NOT arg_DIR)
    set(arg_DIR ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${arg_DIR}/*_test.cpp)
  set(plain ${all})
  foreach(need ${QM_TEST_NEEDS})
    set(some ${all})
    list(FILTER some INCLUDE REGEX "_${need}_test\\.cpp$")
    list(FILTER plain EXCLUDE REGEX "_${need}_test\\.cpp$")
    qm_test_binary(${name}_${need}_test ${need} "${some}" "${arg_DEPS}")
  endforeach()
  qm_test_binary(${name}_test unit "${plain}" "${arg_DEPS}")
  file(GLOB_RECURSE benches CONFIGURE_DEPENDS ${arg_DIR}/*_bench.cpp)
  if(benches)
    add_executable(${name}_bench EXCLUDE_FROM_ALL ${benches})
    set_property(GLOBAL APPEND PROPERTY QM_BENCHES ${name}_bench)
    target_compile_options(${name}_bench PRIVATE ${QM_WARNINGS})
    target_link_libraries(${name}_bench PRIVATE ${arg_DEPS} benchmark::benchmark benchmark::benchmark_main)
  endif()
endfunction()

# A binary whose flags differ from those of the precompiled header does not build, so all binaries link the libraries
# that add flags.
set(QM_TEST_LIBRARIES GTest::gtest GTest::gmock GTest::gtest_main rapidcheck fmt::fmt Threads::Threads)
set(QM_TEST_OPTIONS ${QM_WARNINGS} $<$<CONFIG:Release>:-O1> -pthread)
set(QM_TEST_DEFINITIONS GTEST_HAS_PTHREAD=1 QM_SOURCE_DIR="${CMAKE_SOURCE_DIR}" QM_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")

# Run in four processes, each with a quarter of the tests, and first: one process would delay the end of its group.
set(QM_IN_QUARTERS placement_engine_test placement_engine_test_asan)
function(qm_add_test binary labels)
  set(names ${binary})
  if(binary IN_LIST QM_IN_QUARTERS)
    set(names ${binary}_0 ${binary}_1 ${binary}_2 ${binary}_3)
  endif()
  foreach(name ${names})
    add_test(NAME ${name} COMMAND ${binary})
    set(environment "GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/results/${name}.xml")
    if(name MATCHES "_([0-3])$")
      list(APPEND environment GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=${CMAKE_MATCH_1})
      set_tests_properties(${name} PROPERTIES COST 300)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600 ENVIRONMENT "${environment}")
    if(NOT "unit" IN_LIST labels AND NOT "asan" IN_LIST labels)
      set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
    endif()
  endforeach()
endfunction()

function(qm_test_binary target label sources deps)
  if(NOT sources)
    return()
  endif()
  add_executable(${target} ${sources})
  set_property(GLOBAL APPEND PROPERTY QM_TESTS ${target})
  set(labels ${label})
  if(label STREQUAL "unit" AND NOT target IN_LIST QM_NOT_CORE)
    set_property(GLOBAL APPEND PROPERTY QM_CORE_TESTS ${target})
    list(APPEND labels core)
  endif()
  if(label STREQUAL "k8s")
    set_property(GLOBAL APPEND PROPERTY QM_PEER_TESTS ${target})
  elseif(NOT label STREQUAL "unit")
    set_property(GLOBAL APPEND PROPERTY QM_WAITING_TESTS ${target})
  endif()
  # The code under test is compiled as it ships; the tests themselves are compiled for short build times.
  target_compile_options(${target} PRIVATE ${QM_TEST_OPTIONS} ${QM_PRELUDE_OPTIONS})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(${target} PRIVATE ${QM_TEST_DEFINITIONS})
  target_link_libraries(${target} PRIVATE ${deps} ${QM_TEST_LIBRARIES})
  qm_prelude(qm_test_prelude HEADERS <gtest/gtest.h> OPTIONS ${QM_TEST_OPTIONS} DEFINITIONS ${QM_TEST_DEFINITIONS}
    LIBRARIES ${QM_TEST_LIBRARIES})
  target_precompile_headers(${target} REUSE_FROM qm_test_prelude)
  qm_in_batches(${target} 6)
  qm_add_test(${target} "${labels}")
endfunction()

function(qm_library name)
  cmake_parse_arguments(arg "" "" "DEPS;PRIVATE_DEPS;TEST_DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cpp$")
  if(sources)
    add_library(qm_${name} STATIC ${sources})
    target_compile_options(qm_${name} PRIVATE ${QM_WARNINGS})
    target_include_directories(qm_${name} PUBLIC include PRIVATE src)
    target_link_libraries(qm_${name} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
    qm_in_batches(qm_${name} 5)
    qm_precompiled(qm_${name})
  else()
    add_library(qm_${name} INTERFACE)
    target_include_directories(qm_${name} INTERFACE include)
    target_link_libraries(qm_${name} INTERFACE ${arg_DEPS})
  endif()
  add_library(qm::${name} ALIAS qm_${name})
  qm_tests(${name} DEPS qm::${name} ${arg_TEST_DEPS})
endfunction()

# A service, and a benchmark of one, allocates with jemalloc (docs/adr/0066). The sanitizers have an allocator of their own.
function(qm_service_allocator target)
  if(TARGET ${target} AND NOT QM_SANITIZE)
    target_link_libraries(${target} PRIVATE PkgConfig::jemalloc)
  endif()
endfunction()

# A shipped program; with REPLAY a program that replays recorded traces or cases, which is built with the tests.
function(qm_program target)
  cmake_parse_arguments(arg "REPLAY" "" "SOURCES;DEPS" ${ARGN})
  list(GET arg_SOURCES 0 main)
  if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${main})
    message(STATUS "${target}: no ${main} yet")
    return()
  endif()
  add_executable(${target} ${arg_SOURCES})
  if(arg_REPLAY)
    set_property(GLOBAL APPEND PROPERTY QM_REPLAYS ${target})
  else()
    set_property(GLOBAL APPEND PROPERTY QM_PROGRAMS ${target})
  endif()
  target_compile_options(${target} PRIVATE ${QM_WARNINGS})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${arg_DEPS})
endfunction()

# Collects shipped programs, replay programs, test binaries, benches, core tests, and core tests under sanitizers.
function(qm_collect_targets)
  qm_together()
  get_property(programs GLOBAL PROPERTY QM_PROGRAMS)
  get_property(replays GLOBAL PROPERTY QM_REPLAYS)
  get_property(tests GLOBAL PROPERTY QM_TESTS)
  get_property(core_tests GLOBAL PROPERTY QM_CORE_TESTS)
  get_property(waiting_tests GLOBAL PROPERTY QM_WAITING_TESTS)
  get_property(peer_tests GLOBAL PROPERTY QM_PEER_TESTS)
  get_property(benches GLOBAL PROPERTY QM_BENCHES)
  add_custom_target(product DEPENDS ${programs})
  add_custom_target(replays DEPENDS ${replays})
  list(REMOVE_ITEM tests ${peer_tests})
  add_custom_target(tests DEPENDS ${programs} ${replays} ${tests})
  add_custom_target(waiting_tests DEPENDS ${waiting_tests})
  add_custom_target(peer_tests DEPENDS ${peer_tests})
  add_custom_target(core_tests DEPENDS ${core_tests})
  add_custom_target(benches DEPENDS ${benches})
  if(NOT QM_SANITIZE)
    foreach(test ${core_tests})
      qm_asan_test(${test})
    endforeach()
    list(TRANSFORM core_tests APPEND _asan)
    add_custom_target(asan_tests DEPENDS ${core_tests})
  endif()
endfunction()

function(qm_part service name)
  cmake_parse_arguments(arg "OWN_HEADERS" "" "DEPS;PRIVATE_DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/${name}/*.cpp)
  set(target qm_${service}_${name})
  add_library(${target} STATIC ${sources})
  target_compile_options(${target} PRIVATE ${QM_WARNINGS})
  target_include_directories(${target} PUBLIC include)
  if(arg_OWN_HEADERS)
    target_include_directories(${target} PRIVATE src/${name})
  endif()
  target_link_libraries(${target} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
  add_library(qm::${service}_${name} ALIAS ${target})
endfunction()

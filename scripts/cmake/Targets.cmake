# How a zerolock library, program or test is made: one function each, so that the folders' own CMake files
# only name what they use.

add_library(zerolock_flags INTERFACE)
target_include_directories(zerolock_flags INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(zerolock_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror
  -Wno-maybe-uninitialized  # CAF's and ATen's templates trip it inside the system headers
  -fpch-preprocess)         # lets ccache see through the precompiled headers
if(ZEROLOCK_SANITIZE)
  # CAF 0.17's headers bind null references in places that are never used: leave that one check out.
  set(sanitizers -fsanitize=address,undefined -fno-sanitize=null,vptr -fno-omit-frame-pointer)
  target_compile_options(zerolock_flags INTERFACE ${sanitizers})
  target_link_options(zerolock_flags INTERFACE ${sanitizers})
endif()

add_library(zerolock_torch INTERFACE)
target_link_libraries(zerolock_torch INTERFACE ${TORCH_LIBRARIES})
target_include_directories(zerolock_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

# The two expensive headers are compiled once each and shared by every target that uses them.
function(zerolock_precompiled_header name header)
  add_library(${name} OBJECT "${PROJECT_SOURCE_DIR}/scripts/cmake/empty.cpp")
  target_link_libraries(${name} PRIVATE zerolock_flags ${ARGN})
  target_precompile_headers(${name} PRIVATE ${header} <algorithm> <chrono> <cstdint> <filesystem> <functional>
    <map> <memory> <optional> <string> <string_view> <unordered_map> <utility> <vector>)
endfunction()
zerolock_precompiled_header(zerolock_torch_header <ATen/ATen.h> zerolock_torch)
zerolock_precompiled_header(zerolock_caf_header <caf/all.hpp> zerolock_torch CAF::core)

# zerolock_library(NAME [HEADER torch|caf] SOURCES dir... LINKS target...)
# A static library of every .cpp file in the given folders.
function(zerolock_library name)
  cmake_parse_arguments(arg "" "HEADER" "SOURCES;LINKS" ${ARGN})
  set(files)
  foreach(folder IN LISTS arg_SOURCES)
    file(GLOB found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp")
    list(APPEND files ${found})
  endforeach()
  if(NOT files)
    set(files "${PROJECT_SOURCE_DIR}/scripts/cmake/empty.cpp")
  endif()
  add_library(${name} STATIC ${files})
  target_link_libraries(${name} PUBLIC zerolock_flags ${arg_LINKS})
  if(arg_HEADER)
    target_precompile_headers(${name} REUSE_FROM zerolock_${arg_HEADER}_header)
  endif()
endfunction()

# zerolock_test(NAME [HEADER torch|caf] SOURCES file... LINKS target... [LABELS label...] [TIMEOUT seconds] [PROCESSES])
# One Catch2 program that ctest runs as one test. The time-out only ends a hang; it measures nothing. ctest runs two
# tests at once, those with the longer time-out first. Those that start PROCESSES take turns: each counts what
# it has left behind.
function(zerolock_test name)
  cmake_parse_arguments(arg "PROCESSES" "HEADER;TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES} "${PROJECT_SOURCE_DIR}/tests/main.cpp")
  target_link_libraries(${name} PRIVATE zerolock_flags ${arg_LINKS})
  target_compile_definitions(${name} PRIVATE
    ZEROLOCK_TEST_FIXTURES="${PROJECT_SOURCE_DIR}/tests/fixtures"
    ZEROLOCK_SHARED="${PROJECT_SOURCE_DIR}/../shared"
    ZEROLOCK_BINARY="${CMAKE_BINARY_DIR}/bin/zerolock")
  if(arg_HEADER)
    target_precompile_headers(${name} REUSE_FROM zerolock_${arg_HEADER}_header)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT} LABELS "${arg_LABELS}")
  if(arg_PROCESSES)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK processes)
  endif()
endfunction()

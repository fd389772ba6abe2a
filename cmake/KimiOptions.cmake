# Compiler and linker flags that hold for the whole tree.
add_library(kimi_options INTERFACE)
target_include_directories(kimi_options INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR})
target_compile_options(kimi_options INTERFACE
  -Wall -Wextra -Wno-unused-parameter -Werror=return-type
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option>)
target_compile_definitions(kimi_options INTERFACE KIMI_VERSION="${PROJECT_VERSION}")

if(KIMI_ASSERTS)
  string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
  string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
endif()
if(KIMI_SANITIZE)
  add_compile_options(-fsanitize=${KIMI_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined
                      -fno-sanitize=vptr)
  add_link_options(-fsanitize=${KIMI_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the root, so that another clone of the same sources hits the cache.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
               CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1 ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

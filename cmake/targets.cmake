# autotune_library(name DEPENDS …): the folder's sources as one static library, with the project's warnings.
# autotune_test(label DEPENDS …): the folder's *_test.cpp as one executable, one CTest entry a case.
#   With NAME and SOURCES those, as a further executable: suites that run on several kinds of device.
add_library(autotune_options INTERFACE)
target_include_directories(autotune_options INTERFACE ${PROJECT_SOURCE_DIR})
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # false alarms on std::string in GCC 12 (bug 105329)
if(AUTOTUNE_WERROR)
  list(APPEND warnings -Werror)
endif()
target_compile_options(autotune_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")

function(autotune_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;PRIVATE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC autotune_options ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE autotune_options ${ARG_DEPENDS} ${ARG_PRIVATE})
  endif()
endfunction()

function(autotune_test label)
  cmake_parse_arguments(ARG "" "NAME" "DEPENDS;SOURCES;ENVIRONMENT" ${ARGN})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  if(NOT folder)
    set(folder project)  # tests of the tree as a whole
  endif()
  if(ARG_NAME)
    string(APPEND folder "/${ARG_NAME}")
  endif()
  string(REPLACE "/" "_" name "${folder}_test")
  set(sources ${ARG_SOURCES})
  if(NOT sources)
    file(GLOB sources CONFIGURE_DEPENDS *_test.cpp)
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE autotune_options ${ARG_DEPENDS} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${name} PRIVATE AUTOTUNE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             AUTOTUNE_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  gtest_discover_tests(${name} TEST_PREFIX "${folder}/" DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${label}" ENVIRONMENT "${ARG_ENVIRONMENT}")
endfunction()

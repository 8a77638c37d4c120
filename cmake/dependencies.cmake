# Finds every package once. A missing optional package leaves its target out and is named in the summary.
find_package(Threads REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(tomlplusplus CONFIG REQUIRED)

set(AUTOTUNE_MISSING "" CACHE INTERNAL "Optional parts that are left out, with the package each needs")
function(autotune_missing part package)
  set(AUTOTUNE_MISSING "${AUTOTUNE_MISSING};${part} (needs ${package})" CACHE INTERNAL "")
endfunction()

if(AUTOTUNE_TESTS)
  find_package(GTest CONFIG REQUIRED)
  include(GoogleTest)
  find_path(VALIJSON_INCLUDE_DIR valijson/validator.hpp)
  if(NOT VALIJSON_INCLUDE_DIR)
    autotune_missing("the check of answers against their JSON schemas" "libvalijson-dev")
  endif()
endif()
if(AUTOTUNE_BENCHMARKS)
  find_package(benchmark CONFIG QUIET)
  if(NOT benchmark_FOUND)
    autotune_missing("benchmarks" "libbenchmark-dev")
  endif()
endif()

# Debian's dnnl-config.cmake demands OpenCL, which we do not use: look for the library itself.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
                                              INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
else()
  autotune_missing("fast matrix products on the CPU" "libdnnl-dev")
endif()

# ThreadSanitizer does not see how OpenMP's threads wait for each other.
option(AUTOTUNE_OPENMP "Share out CPU kernels with OpenMP rather than plain threads" ON)
if(AUTOTUNE_OPENMP)
  find_package(OpenMP QUIET COMPONENTS CXX)
endif()

set(MPI_CXX_SKIP_MPICXX TRUE)
find_package(MPI QUIET COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  autotune_missing("ranks as MPI processes" "libopenmpi-dev")
endif()

find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h)
find_library(SENTENCEPIECE_LIBRARY sentencepiece)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)  # for tests, which train a model of their own
if(SENTENCEPIECE_INCLUDE_DIR AND SENTENCEPIECE_LIBRARY)
  add_library(sentencepiece::sentencepiece UNKNOWN IMPORTED)
  set_target_properties(sentencepiece::sentencepiece PROPERTIES
    IMPORTED_LOCATION ${SENTENCEPIECE_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${SENTENCEPIECE_INCLUDE_DIR})
else()
  autotune_missing("sentencepiece tokenizers" "libsentencepiece-dev")
endif()

find_file(CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist NO_DEFAULT_PATH)
if(NOT CHART_JS)
  autotune_missing("reports as web pages" "libjs-chart.js")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

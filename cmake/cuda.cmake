# Finds the CUDA toolkit, if there is one. AUTOTUNE_CUDA tells whether programs for GPUs are built.
include(CheckLanguage)
option(AUTOTUNE_CUDA "Build the CUDA device where the toolkit is found" ON)
set(AUTOTUNE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING
  "GPU generations to compile for, as in CMAKE_CUDA_ARCHITECTURES (later ones use what is not -real); tested: 80;90;100;120")
if(NOT AUTOTUNE_CUDA)
  autotune_missing("trials on GPUs" "AUTOTUNE_CUDA=ON")
  return()
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  set(AUTOTUNE_CUDA OFF)
  autotune_missing("trials on GPUs" "the CUDA toolkit 12 or later with nvcc in PATH")
  return()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${AUTOTUNE_CUDA_ARCHITECTURES})
enable_language(CUDA)
# CMake 3.25 does not know nvcc's flag for C++20.
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit REQUIRED)

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} $ENV{NCCL_ROOT}/include)
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} $ENV{NCCL_ROOT}/lib)
if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
  add_library(nccl::nccl UNKNOWN IMPORTED)
  set_target_properties(nccl::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                                              INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
else()
  autotune_missing("ranks on several GPUs" "NCCL 2.18 or later")
endif()

# The headers of CUDA, without its libraries: programs link those, tests a stand-in.
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
# What nvcc warns of is an error, and so is a kernel that keeps registers in memory.
set(AUTOTUNE_NVCC_FLAGS --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra)
if(AUTOTUNE_WERROR)
  list(APPEND AUTOTUNE_NVCC_FLAGS -Werror all-warnings -Xptxas=--warn-on-spills,--warning-as-error)
endif()

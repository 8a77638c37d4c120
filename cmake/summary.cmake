# What this build holds, and what it lacks.
message(STATUS "autotune ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
if(AUTOTUNE_MISSING)
  foreach(part ${AUTOTUNE_MISSING})
    message(STATUS "  left out: ${part}")
  endforeach()
else()
  message(STATUS "  nothing left out")
endif()

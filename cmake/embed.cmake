# autotune_embed(out.cpp FOLDER …): writes a source file that holds every JSON file below the folders,
# so that the program runs from anywhere, alone.
function(autotune_embed output)
  set(files "")
  foreach(folder ${ARGN})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.json ${PROJECT_SOURCE_DIR}/${folder}/*.csv)
    list(APPEND files ${found})
  endforeach()
  list(SORT files)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DOUTPUT=${output} "-DFILES=${files}"
            -P ${PROJECT_SOURCE_DIR}/cmake/write_embedded.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/write_embedded.cmake VERBATIM)
endfunction()

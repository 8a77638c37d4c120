# autotune_embed_files(out.cpp HEADER FUNCTION FILE …): writes a source file that holds the files and the FUNCTION,
# declared in HEADER, that tells them as a std::span of EmbeddedFile.
function(autotune_embed_files output header function)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DOUTPUT=${output} -DHEADER=${header} -DFUNCTION=${function}
            "-DFILES=${ARGN}" -P ${PROJECT_SOURCE_DIR}/cmake/write_embedded.cmake
    DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/cmake/write_embedded.cmake VERBATIM)
endfunction()

# autotune_embed(out.cpp FOLDER …): the same for every data file (JSON, CSV) below the folders, so that the program
# runs from anywhere, alone.
function(autotune_embed output)
  set(files "")
  foreach(folder ${ARGN})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.json ${PROJECT_SOURCE_DIR}/${folder}/*.csv)
    list(APPEND files ${found})
  endforeach()
  list(SORT files)
  autotune_embed_files(${output} tuner/model/data_files.h embedded_files ${files})
endfunction()

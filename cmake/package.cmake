# What `cmake --install` puts where, and the Debian package that CPack makes of it.
include(GNUInstallDirs)

foreach(program autotune autotune-worker autotune-worker-cuda)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

# Manual pages and completions come from the program's own option tables.
set(generated ${PROJECT_BINARY_DIR}/generated)
add_custom_command(OUTPUT ${generated}/stamp
  COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}
  COMMAND autotune man --output ${generated}/man1
  COMMAND autotune completion bash > ${generated}/autotune.bash
  COMMAND autotune completion zsh > ${generated}/_autotune
  COMMAND autotune completion fish > ${generated}/autotune.fish
  COMMAND ${CMAKE_COMMAND} -E touch ${generated}/stamp
  DEPENDS autotune VERBATIM)
add_custom_target(manuals ALL DEPENDS ${generated}/stamp)
add_dependencies(programs manuals)

install(DIRECTORY ${generated}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
install(FILES ${generated}/autotune.bash RENAME autotune
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${generated}/_autotune DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${generated}/autotune.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE RENAME copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_CONTACT "the autotune developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # every library's package, found from the programs
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin, slurm-client, bash-completion")
include(CPack)

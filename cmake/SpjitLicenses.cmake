# spjit_install_licenses(FOLDER COMPONENT PACKAGE...): the licenses of libraries whose code is part of
# what is installed, from where Debian's packages have them. Elsewhere there are none to take.
function(spjit_install_licenses folder component)
  foreach(package IN LISTS ARGN)
    set(file "/usr/share/doc/${package}/copyright")
    if(EXISTS "${file}")
      install(FILES "${file}" DESTINATION "${folder}" RENAME "${package}" COMPONENT ${component})
    endif()
  endforeach()
endfunction()

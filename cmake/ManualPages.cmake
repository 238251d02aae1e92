# Makes manual pages of what `spjit --help` and `spjit COMMAND --help` print, which have that form:
#   cmake -DTOOL=SPJIT -DFOLDER=FOLDER -DVERSION=X.Y.Z -P ManualPages.cmake

# write_page(NAME TEXT): NAME.1.gz. Lines stay as they are; a name is one word for `man` and `apropos`.
function(write_page name text)
  string(REPLACE "-" " " spoken "${name}")
  string(REPLACE "\\" "\\e" text "\n${text}")
  string(REPLACE "-" "\\-" text "${text}")
  string(REPLACE "NAME\n    ${spoken} " "NAME\n    ${name} " text "${text}")
  string(REPLACE "\n    " "\n" text "${text}")
  # A line that begins with one of these would be a command of troff.
  string(REGEX REPLACE "\n([.'])" "\n\\\\&\\1" text "${text}")
  string(REGEX REPLACE "\n([A-Z][A-Z ]*)\n" "\n.fi\n.SH \\1\n.nf\n" text "${text}")
  string(REPLACE "\n.fi\n.SH NAME\n.nf\n" ".SH NAME\n" text "${text}")
  string(TOUPPER "${name}" title)
  file(WRITE "${FOLDER}/${name}.1" ".TH ${title} 1 \"\" \"spjit ${VERSION}\"\n${text}.fi\n")
  execute_process(COMMAND gzip -9nf "${name}.1" WORKING_DIRECTORY "${FOLDER}"
                  COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# help_of(RESULT ARGUMENT...)
function(help_of result)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env NO_COLOR=1 "${TOOL}" ${ARGN} --help
                  OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

help_of(text)
write_page(spjit "${text}")
string(REGEX MATCH "\nCOMMANDS\n(    [a-z]+ [^\n]*\n)+" commands "${text}")
string(REGEX MATCHALL "\n    [a-z]+" commands "${commands}")
if(NOT commands)
  message(FATAL_ERROR "'${TOOL} --help' has no list of COMMANDS")
endif()
foreach(command IN LISTS commands)
  string(STRIP "${command}" command)
  help_of(text ${command})
  write_page(spjit-${command} "${text}")
endforeach()

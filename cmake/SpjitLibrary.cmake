# libspjit out of the modules, and spjit_internal: the same objects as a static library for tests,
# tools and benchmarks that look behind the public headers.

get_property(modules GLOBAL PROPERTY SPJIT_MODULES)
get_property(links GLOBAL PROPERTY SPJIT_LINK)
list(REMOVE_DUPLICATES links)
set(objects)
foreach(module IN LISTS modules)
  list(APPEND objects $<TARGET_OBJECTS:${module}>)
endforeach()

add_library(spjit ${objects})
add_library(spjit::spjit ALIAS spjit)
set_target_properties(spjit PROPERTIES VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                      LINKER_LANGUAGE CXX)
target_compile_features(spjit PUBLIC cxx_std_20)
target_include_directories(spjit PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(spjit PRIVATE $<BUILD_INTERFACE:spjit_flags> ${links})
if(BUILD_SHARED_LIBS)
  # Versions of the C interface's symbols.
  set(version_script "${PROJECT_SOURCE_DIR}/bindings/c/spjit.map")
  target_link_options(spjit PRIVATE "LINKER:--version-script=${version_script}")
  set_target_properties(spjit PROPERTIES LINK_DEPENDS "${version_script}")
endif()
if(BUILD_SHARED_LIBS AND NOT SPJIT_SANITIZE)
  # A symbol nobody defines fails here, not in the first program that loads the library.
  target_link_options(spjit PRIVATE LINKER:-z,defs)
endif()

add_library(spjit_internal STATIC EXCLUDE_FROM_ALL ${objects})
set_target_properties(spjit_internal PROPERTIES LINKER_LANGUAGE CXX)
target_include_directories(spjit_internal PUBLIC "${PROJECT_SOURCE_DIR}"
                           "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(spjit_internal PUBLIC spjit_flags ${links})

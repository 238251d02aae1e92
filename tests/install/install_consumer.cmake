# Run by ctest: see CMakeLists.txt here for the variables.

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    list(JOIN ARGV " " line)
    message(FATAL_ERROR "exit ${code}: ${line}")
  endif()
endfunction()

set(prefix "${WORK_DIR}/prefix")
set(flags "")
if(SANITIZE)
  # A sanitized library only loads into a sanitized program.
  set(flags "-fsanitize=${SANITIZE}")
endif()
file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")

run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --config "${CONFIG}" --prefix "${prefix}")

run("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${CONSUMER_DIR}" -B "${WORK_DIR}/build"
    "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_FLAGS=${flags}"
    "-DSPJIT_EXPECTED_VERSION=${VERSION}" "-DCMAKE_BUILD_TYPE=${CONFIG}"
    # Nothing but the installed package may be found here.
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF)
run("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")
run("${WORK_DIR}/build/consumer")

find_program(PKG_CONFIG NAMES pkg-config pkgconf REQUIRED)
set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIBDIR}/pkgconfig")
execute_process(COMMAND "${PKG_CONFIG}" --cflags --libs "spjit = ${VERSION}"
                OUTPUT_VARIABLE pc_flags OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(pc_flags UNIX_COMMAND "${pc_flags}")
run("${CXX}" -std=c++20 ${flags} "${CONSUMER_DIR}/consumer.cpp" -o "${WORK_DIR}/pc_consumer"
    "-DSPJIT_EXPECTED_VERSION=\"${VERSION}\"" ${pc_flags} "-Wl,-rpath,${prefix}/${LIBDIR}")
run("${WORK_DIR}/pc_consumer")

# From C, with what pkg-config says: spjit.h is installed, and a C compiler takes it.
find_program(C_COMPILER NAMES cc gcc clang-14 REQUIRED)
run("${C_COMPILER}" -std=c11 -Wall -Wextra -Werror -pedantic ${flags} "${EXAMPLES_DIR}/c/layer.c"
    -o "${WORK_DIR}/c_consumer" ${pc_flags} -lm "-Wl,-rpath,${prefix}/${LIBDIR}")
run("${WORK_DIR}/c_consumer" "${EXAMPLES_DIR}/quickstart/weights.mtx")

#pragma once

/// @file
/// The version of spjit. The build and the package read it from here: the one place it is written.

#define SPJIT_VERSION_MAJOR 0
#define SPJIT_VERSION_MINOR 1
#define SPJIT_VERSION_PATCH 0
#define SPJIT_VERSION "0.1.0"

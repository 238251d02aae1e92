#pragma once

/// Marks what libspjit exports; everything else in it is hidden.
#define SPJIT_EXPORT __attribute__((visibility("default")))

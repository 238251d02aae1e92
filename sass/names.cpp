#include <fmt/format.h>

#include <cstddef>
#include <iterator>

#include "sass/instruction.hpp"

namespace spjit::sass {
namespace {

// In the order of Opcode.
constexpr std::string_view k_opcodes[] = {
    "BAR",      "BMOV",   "BRA",           "BREAK",     "BRX",    "BRXU",    "BSSY",  "BSYNC",
    "CALL",     "CS2R",   "ENDCOLLECTIVE", "EXIT",      "F2I",    "FADD",    "FCHK",  "FFMA",
    "FLO",      "FMNMX",  "FMUL",          "FRND",      "FSEL",   "FSETP",   "HFMA2", "I2F",
    "I2FP",     "IABS",   "IADD3",         "IMAD",      "IMNMX",  "ISETP",   "LD",    "LDC",
    "LDG",      "LDL",    "LDS",           "LEA",       "LOP3",   "MOV",     "MUFU",  "NOP",
    "P2R",      "PLOP3",  "POPC",          "PRMT",      "R2P",    "R2UR",    "RET",   "S2R",
    "S2UR",     "SEL",    "SHF",           "SHFL",      "ST",     "STG",     "STL",   "STS",
    "UFLO",     "UIADD3", "UIMAD",         "UISETP",    "ULDC",   "ULEA",    "ULOP3", "UMOV",
    "USEL",     "USHF",   "VIADD",         "VIADDMNMX", "VIMNMX", "VIMNMX3", "VOTE",  "VOTEU",
    "WARPSYNC", "YIELD"};
static_assert(std::size(k_opcodes) == static_cast<std::size_t>(Opcode::count));

// In the order of Modifier.
constexpr std::string_view k_modifiers[] = {
    "",      "?",        "E",      "U8",   "S8",     "U16",     "S16",  "U",
    "32",    "64",       "128",    "U32",  "S32",    "U64",     "S64",  "F32",
    "F64",   "CONSTANT", "STRONG", "CTA",  "SM",     "GPU",     "SYS",  "EF",
    "EL",    "LU",       "EU",     "NA",   "LTC64B", "LTC128B", "FTZ",  "SAT",
    "RM",    "RP",       "RZ",     "NAN",  "NTZ",    "FLOOR",   "CEIL", "TRUNC",
    "F",     "LT",       "EQ",     "LE",   "GT",     "NE",      "GE",   "NUM",
    "LTU",   "EQU",      "LEU",    "GTU",  "NEU",    "GEU",     "T",    "AND",
    "OR",    "XOR",      "EX",     "X",    "HI",     "SX32",    "WIDE", "LUT",
    "L",     "R",        "W",      "SH",   "COS",    "SIN",     "EX2",  "LG2",
    "RCP",   "RSQ",      "SQRT",   "TANH", "MMA",    "CLEAR",   "SYNC", "DEFER_BLOCKING",
    "NOINC", "NODEC",    "ABS",    "REL",  "DIV",    "ALL",     "ANY",  "COLLECTIVE",
    "IDX",   "UP",       "DOWN",   "BFLY", "B1",     "B2",      "B3"};
static_assert(std::size(k_modifiers) == static_cast<std::size_t>(Modifier::count));

struct SpecialName {
  std::uint8_t number;
  std::string_view name;
};

constexpr SpecialName k_special_registers[] = {
    {0, "SR_LANEID"},   {33, "SR_TID.X"},   {34, "SR_TID.Y"},   {35, "SR_TID.Z"},
    {37, "SR_CTAID.X"}, {38, "SR_CTAID.Y"}, {39, "SR_CTAID.Z"}, {46, "SR_LWINHI"},
    {47, "SR_SWINHI"},  {56, "SR_EQMASK"},  {57, "SR_LTMASK"},  {58, "SR_LEMASK"},
    {59, "SR_GTMASK"},  {60, "SR_GEMASK"},  {80, "SR_CLOCKLO"}, {136, "SR_CgaCtaId"},
    {255, "SRZ"}};

}  // namespace

std::string_view special_register_name(std::uint8_t number) noexcept {
  for (const SpecialName& special : k_special_registers) {
    if (special.number == number) return special.name;
  }
  return "";
}

std::string_view to_string(Opcode opcode) noexcept {
  return k_opcodes[static_cast<std::size_t>(opcode)];
}

std::string_view to_string(Modifier modifier) noexcept {
  return k_modifiers[static_cast<std::size_t>(modifier)];
}

}  // namespace spjit::sass

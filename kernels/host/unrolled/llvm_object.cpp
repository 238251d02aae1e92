#include "kernels/host/unrolled/llvm_object.hpp"

#include <fmt/format.h>
#include <llvm-c/Target.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>

#include <memory>

#include "spjit/error.hpp"

namespace spjit {
namespace {

constexpr const char* k_triple = "x86_64-unknown-linux-gnu";
constexpr const char* k_cpu = "x86-64";  // the baseline: SSE2

CompileFailed failed(const std::string& what, std::string log = {}) {
  return CompileFailed(
      fmt::format("LLVM could not compile the generic kernel: {}; this is an error in spjit, "
                  "please report it (target host-avx2 or a code budget of 0 avoids it)",
                  what),
      std::move(log));
}

/// LLVM's value, or CompileFailed with LLVM's words.
template <class Value>
Value value_of(llvm::Expected<Value> expected) {
  if (!expected) throw failed(llvm::toString(expected.takeError()));
  return std::move(*expected);
}

std::unique_ptr<llvm::TargetMachine> make_target_machine() {
  initialize_llvm();
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(k_triple, error);
  if (target == nullptr) throw NotSupported("this build's LLVM has no x86-64 target: " + error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(k_triple, k_cpu, "", options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::None));
  return machine;
}

llvm::SmallVector<char, 0> compile_to_object(llvm::Module& module) {
  std::string log;
  bool errors = false;
  const auto collect = [&](const llvm::DiagnosticInfo* info) {
    llvm::raw_string_ostream stream(log);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info->print(printer);
    stream << '\n';
    errors = errors || info->getSeverity() == llvm::DS_Error;
  };
  using Collect = decltype(collect);
  module.getContext().setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo* info, void* sink) { (*static_cast<Collect*>(sink))(info); },
      const_cast<void*>(static_cast<const void*>(&collect)));

  const std::unique_ptr<llvm::TargetMachine> machine = make_target_machine();
  module.setTargetTriple(k_triple);
  module.setDataLayout(machine->createDataLayout());
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  constexpr bool k_disable_verify = true;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile,
                                   k_disable_verify)) {
    throw failed("its target writes no object files");
  }
  passes.run(module);
  module.getContext().setDiagnosticHandlerCallBack(nullptr, nullptr);
  if (errors) throw failed("see the log", std::move(log));
  return object;
}

/// Refuses anything that a copy of .text alone would lack.
void check_section(const llvm::object::SectionRef& section) {
  const llvm::object::ELFSectionRef elf(section);
  const std::string name = value_of(section.getName()).str();
  if (section.relocation_begin() != section.relocation_end()) {
    throw failed("its code needs relocations (" + name + ")");
  }
  if ((elf.getFlags() & llvm::ELF::SHF_ALLOC) != 0 && !section.isText() && section.getSize() != 0) {
    throw failed("its code needs data in section " + name);
  }
}

}  // namespace

void initialize_llvm() {
  [[maybe_unused]] static const bool initialized = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86Disassembler();
    return true;
  }();
}

PositionIndependentText compile_to_text(llvm::Module& module,
                                        const std::vector<std::string>& functions) {
  const llvm::SmallVector<char, 0> object = compile_to_object(module);
  const llvm::MemoryBufferRef buffer({object.data(), object.size()}, "spjit");
  const auto file = value_of(llvm::object::ObjectFile::createELFObjectFile(buffer));

  PositionIndependentText text;
  bool found = false;
  for (const llvm::object::SectionRef& section : file->sections()) {
    check_section(section);
    if (!section.isText() || section.getSize() == 0) continue;
    if (found) throw failed("its code is in more than one section");
    found = true;
    const llvm::StringRef contents = value_of(section.getContents());
    text.bytes.assign(contents.bytes_begin(), contents.bytes_end());
  }

  llvm::StringMap<std::int64_t> addresses;
  for (const llvm::object::SymbolRef& symbol : file->symbols()) {
    addresses[value_of(symbol.getName())] = static_cast<std::int64_t>(value_of(symbol.getValue()));
  }
  text.offsets.reserve(functions.size());
  for (const std::string& function : functions) {
    const auto entry = addresses.find(function);
    if (entry == addresses.end()) throw failed("its object has no function " + function);
    text.offsets.push_back(entry->second);
  }
  return text;
}

}  // namespace spjit

#include "runtime/host/host_cards.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/host/host_device_info.hpp"
#include "spjit/error.hpp"
#include "tests/support/host/cpu_testing.hpp"

namespace {

using namespace spjit;
using spjit::testing_support::haswell_cpu;
using spjit::testing_support::zen4_cpu;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(HostIsa isa) {
  std::vector<std::string> names;
  for (const HostCard& card : host_cards(isa)) names.emplace_back(card.name);
  return names;
}

std::string card_name(const HostCpu& cpu) {
  const auto card = card_of_cpu(cpu);
  return card ? std::string(card->name) : "";
}

HostCpu model(const char* vendor, int family, int number, const char* caches_of) {
  HostCpu cpu = zen4_cpu();
  cpu.vendor = vendor;
  cpu.family = family;
  cpu.model = number;
  const HostCard card = host_card(caches_of, HostIsa::avx2, "");
  cpu.l1i_bytes = card.l1i_bytes;
  cpu.l1d_bytes = card.l1d_bytes;
  cpu.l2_bytes = card.l2_bytes;
  cpu.l3_bytes = card.l3_bytes;
  return cpu;
}

TEST(HostCards, AreThoseThatHaveTheInstructionSet) {
  EXPECT_THAT(names_of(HostIsa::avx512), ElementsAre("zen4", "zen5", "cascadelake", "icelake",
                                                     "sapphire-rapids", "emerald-rapids", "any"));
  EXPECT_THAT(names_of(HostIsa::avx2), ElementsAre("zen3", "zen4", "zen5", "cascadelake", "icelake",
                                                   "sapphire-rapids", "emerald-rapids", "any"));
  EXPECT_EQ(names_of(HostIsa::generic), names_of(HostIsa::avx2));
}

TEST(HostCards, AnyIsTheSmallestOfAll) {
  for (const HostIsa isa : {HostIsa::avx512, HostIsa::avx2}) {
    const HostCard any = host_card("any", isa, "");
    HostCard least = host_cards(isa).front();
    for (const HostCard& card : host_cards(isa)) {
      least.l1i_bytes = std::min(least.l1i_bytes, card.l1i_bytes);
      least.l1d_bytes = std::min(least.l1d_bytes, card.l1d_bytes);
      least.l2_bytes = std::min(least.l2_bytes, card.l2_bytes);
      least.l3_bytes = std::min(least.l3_bytes, card.l3_bytes);
    }

    EXPECT_EQ(any.l1i_bytes, least.l1i_bytes);
    EXPECT_EQ(any.l1d_bytes, least.l1d_bytes);
    EXPECT_EQ(any.l2_bytes, least.l2_bytes);
    EXPECT_EQ(any.l3_bytes, least.l3_bytes);
    EXPECT_FALSE(any.l3_is_far);
  }
}

TEST(HostCards, ACpuIsTheCardOfItsModel) {
  EXPECT_EQ(card_name(model("AuthenticAMD", 0x19, 0x01, "zen3")), "zen3");
  EXPECT_EQ(card_name(model("AuthenticAMD", 0x19, 0x21, "zen3")), "zen3");
  EXPECT_EQ(card_name(model("AuthenticAMD", 0x19, 0x11, "zen4")), "zen4");
  EXPECT_EQ(card_name(model("AuthenticAMD", 0x19, 0x61, "zen4")), "zen4");
  EXPECT_EQ(card_name(model("AuthenticAMD", 0x19, 0xA0, "zen4")), "zen4");
  EXPECT_EQ(card_name(model("AuthenticAMD", 0x1A, 0x02, "zen5")), "zen5");
  EXPECT_EQ(card_name(model("AuthenticAMD", 0x1A, 0x44, "zen5")), "zen5");
  EXPECT_EQ(card_name(model("GenuineIntel", 6, 0x55, "cascadelake")), "cascadelake");
  EXPECT_EQ(card_name(model("GenuineIntel", 6, 0x6A, "icelake")), "icelake");
  EXPECT_EQ(card_name(model("GenuineIntel", 6, 0x8F, "sapphire-rapids")), "sapphire-rapids");
  EXPECT_EQ(card_name(model("GenuineIntel", 6, 0xCF, "emerald-rapids")), "emerald-rapids");
  EXPECT_EQ(card_name(model("GenuineIntel", 6, 0xAD, "sapphire-rapids")), "") << "not listed";
  EXPECT_EQ(card_name(model("AuthenticAMD", 0x1A, 0x24, "zen5")), "") << "of notebooks";
  EXPECT_EQ(card_name(haswell_cpu()), "");
}

TEST(HostCards, ACpuWithOtherCachesIsNone) {
  HostCpu cpu = zen4_cpu();
  cpu.l3_bytes = 64 << 20;
  EXPECT_EQ(card_name(cpu), "zen4");
  cpu.l3_bytes = 96 << 20;  // stacked
  EXPECT_EQ(card_name(cpu), "");
  cpu.l3_bytes = 16 << 20;
  EXPECT_EQ(card_name(cpu), "zen4");
  cpu.l3_bytes = 8 << 20;
  EXPECT_EQ(card_name(cpu), "");
  cpu = zen4_cpu();
  cpu.l2_bytes *= 2;
  EXPECT_EQ(card_name(cpu), "");
  cpu = model("GenuineIntel", 6, 0x55, "cascadelake");
  cpu.l3_bytes = 32 << 20;
  EXPECT_EQ(card_name(cpu), "") << "its L3 is near";
}

TEST(HostDeviceInfo, OfAListedCpuHasTheCachesOfItsCard) {
  HostCpu cpu = zen4_cpu();
  cpu.l3_bytes = 16 << 20;

  const HostDeviceInfo info = host_device_info(HostIsa::avx512, cpu);

  EXPECT_EQ(info.card, "zen4");
  EXPECT_EQ(info.name, "AMD EPYC 9354");
  EXPECT_EQ(info.l3_bytes, 32 << 20);
  EXPECT_EQ(info.fmas_per_cycle, 1);
  EXPECT_EQ(info.cpus, 32);
  EXPECT_EQ(host_device_info(HostIsa::avx2, cpu).fmas_per_cycle, 2);
}

TEST(HostDeviceInfo, OfAnotherCpuHasItsOwn) {
  HostCpu cpu = zen4_cpu();
  cpu.l3_bytes = 96 << 20;

  const HostDeviceInfo info = host_device_info(HostIsa::avx512, cpu);

  EXPECT_EQ(info.card, "");
  EXPECT_EQ(info.l3_bytes, 96 << 20);
  EXPECT_EQ(info.fmas_per_cycle, 1) << "it is a Zen 4 all the same";
  EXPECT_EQ(host_device_info(HostIsa::avx2, haswell_cpu()).l2_bytes, 256 << 10);
}

TEST(HostDeviceInfo, OfACpuWithoutTheInstructionSetIsAny) {
  const HostDeviceInfo info = host_device_info(HostIsa::avx512, haswell_cpu());

  EXPECT_EQ(info.card, "any");
  EXPECT_EQ(info.lanes, 16);
  EXPECT_EQ(info.l2_bytes, 1 << 20);
}

TEST(HostDeviceInfo, OfANamedCardIsTheSameEverywhere) {
  const HostDeviceInfo named = host_device_info(Target::parse("host-avx512:zen4"));
  const HostDeviceInfo at_home = host_device_info(HostIsa::avx512, zen4_cpu());

  EXPECT_EQ(named.card, at_home.card);
  EXPECT_EQ(named.l2_bytes, at_home.l2_bytes);
  EXPECT_EQ(named.l3_bytes, at_home.l3_bytes);
  EXPECT_EQ(named.fmas_per_cycle, at_home.fmas_per_cycle);
  EXPECT_EQ(named.name, "AMD Zen 4");
}

TEST(WhyNotTimed, ACardIsTimedOnItselfAlone) {
  const HostCpu zen4 = zen4_cpu();

  EXPECT_FALSE(why_not_timed_on(zen4, Target::parse("host-avx512:zen4")));
  EXPECT_FALSE(why_not_timed_on(zen4, Target(HostIsa::avx512)));
  EXPECT_EQ(why_not_timed_on(zen4, Target::parse("host-avx512:zen5")).reason(),
            "this CPU (AMD EPYC 9354) is no zen5");
  EXPECT_EQ(why_not_timed_on(zen4, Target::parse("host-avx512:any")).reason(),
            "it is for no CPU in particular");
  EXPECT_EQ(why_not_timed_on(haswell_cpu(), Target::parse("host-avx512:zen4")).reason(),
            "needs AVX-512");
}

TEST(HostCards, TargetsNameThem) {
  const Target zen4 = Target::parse("host-avx512:zen4");

  EXPECT_EQ(zen4.name(), "host-avx512:zen4");
  EXPECT_EQ(zen4.isa(), HostIsa::avx512);
  EXPECT_EQ(zen4.card(), "zen4");
  EXPECT_EQ(zen4.backend(), "host");
  EXPECT_EQ(Target::parse(zen4.name()), zen4);
  EXPECT_NE(zen4, Target(HostIsa::avx512));
  EXPECT_EQ(zen4.runs_here(), Target(HostIsa::avx512).runs_here());
}

TEST(HostCards, TargetsOfOthersAreRefusedWithAListOfThose) {
  for (const char* name : {"host-avx512:zen3", "host-avx512:", "host-avx512:z80", "host:zen4"}) {
    try {
      static_cast<void>(Target::parse(name));
      FAIL() << name;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(name));
      EXPECT_THAT(error.what(), HasSubstr("zen4"));
    }
  }
}

}  // namespace

// Each shipped program is built with mitigations against memory errors.
#include "qm/base/json.hpp"
#include "shipped.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

namespace qm::hardening {
namespace programs_test {

/// The result of checksec, of Debian's package of that name, for a file.
Json checked(const std::string& path) {
  const Ran ran = sh("checksec --output=json --file=" + path);
  EXPECT_EQ(ran.code, 0) << ran.output;
  const auto answer = Json::parse(ran.output);
  EXPECT_TRUE(answer) << ran.output;
  return answer ? (*answer)[path] : Json();
}

class Hardening : public ::testing::Test {
 protected:
  void SetUp() override {
    if (sh("command -v checksec").code != 0) GTEST_SKIP() << "checksec is missing: ./qm setup installs it";
  }
};

TEST_F(Hardening, EveryShippedProgramIsHardened) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "programs under sanitizers do not ship";
#endif
  constexpr std::pair<const char*, const char*> kWanted[] = {
      {"pie", "yes"},     // loaded at a random address
      {"relro", "full"},  // no function pointer of the linker can be overwritten: RELRO and BIND_NOW
      {"canary", "yes"},  // a stack overflow ends the process
      {"nx", "yes"},      // data is not executed
      {"rpath", "no"},    // libraries come from the system folders of the image
      {"runpath", "no"},
  };
  const auto programs = shipped();
  ASSERT_EQ(programs.size(), 8u);
  for (const auto& name : programs) {
    SCOPED_TRACE(name);
    const Json found = checked(program(name));
    for (const auto& [what, wanted] : kWanted) EXPECT_EQ(found[what].string(), wanted) << what;
  }
}

// Most programs call no function with a fortified form, so the binary does not show how it was compiled.
TEST_F(Hardening, EverySourceIsCompiledWithFortifiedFunctions) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "programs under sanitizers do not ship";
#endif
  const auto commands = Json::parse(testing::read_file(std::string(QM_BIN_DIR) + "/../compile_commands.json"));
  ASSERT_TRUE(commands) << commands.error().to_string();
  std::size_t compiled = 0;
  for (const Json& one : commands->items()) {
    const std::string& command = one["command"].string();
    if (command.find("-fsanitize=") != std::string::npos) continue;
    EXPECT_NE(command.find("-D_FORTIFY_SOURCE=2"), std::string::npos) << one["file"].string();
    EXPECT_EQ(command.find("-U_FORTIFY_SOURCE"), std::string::npos) << one["file"].string();
    ++compiled;
  }
  EXPECT_GT(compiled, 100u);
  EXPECT_EQ(checked(program("qm-fleet"))["fortify_source"].string(), "yes");
}

// The check itself detects missing protection.
TEST_F(Hardening, AnUnprotectedProgramIsDetected) {
  const testing::TempDir folder;
  const std::string path = folder.path() + "/plain";
  const Ran built =
      sh(fmt::format("printf '#include <cstring>\\nint main(int n, char** v) {{ char b[8]; std::strcpy(b, v[n - 1]); "
                     "return b[0]; }}' | c++ -x c++ -O1 -no-pie -fno-stack-protector -U_FORTIFY_SOURCE "
                     "-Wl,-z,norelro -Wl,-z,execstack -Wl,-rpath,/tmp -Wl,--disable-new-dtags -o {} -",
                     path));
  ASSERT_EQ(built.code, 0) << built.output;
  const Json found = checked(path);
  EXPECT_EQ(found["pie"].string(), "no");
  EXPECT_EQ(found["relro"].string(), "no");
  EXPECT_EQ(found["canary"].string(), "no");
  EXPECT_EQ(found["fortify_source"].string(), "no");
  EXPECT_EQ(found["nx"].string(), "no");
  EXPECT_EQ(found["rpath"].string(), "yes");
}

}  // namespace programs_test
}  // namespace qm::hardening

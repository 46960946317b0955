// The verifier against NVIDIA's: what tests/ir/verify/rules.txt accepts, tileirdisasm (which verifies) accepts; what it
// rejects, tileirdisasm rejects, but for rules that NVIDIA does not enforce, listed here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "codegen/tileiras/files.hpp"
#include "codegen/tileiras/process.hpp"
#include "ir/rule_reader.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera::tileiras {
namespace {

/// Parts of messages of rules that are ours alone, each with its reason.
constexpr const char* kOurs[] = {
    // Hints that NVIDIA's tools ignore without a word.
    "hint",
    "sm_90.",
    "sm_80.",
    // The bytecode says "one element", which readers take for a splat.
    "tile<4x8xf32>, found 4",
    // Global alignment is not checked until the program is lowered.
    "global @table: expected an alignment",
    // Allowed again by assemblers of 13.5 and newer, rejected by older ones.
    "expected a view without padding value",
};

bool is_ours(const std::string& message) {
  for (const char* part : kOurs)
    if (message.find(part) != std::string::npos) return true;
  return false;
}

struct Question {
  std::vector<std::string> program;
  std::string message;  ///< empty: legal
  std::string answer;   ///< "accepted", "not writable", or NVIDIA's error
};

std::string ask(const std::string& disassembler, const std::vector<std::string>& program) {
  std::vector<std::byte> bytes;
  try {
    bytes = ir::write_bytecode(*ir::testing::CaseReader::read(program));
  } catch (const std::exception&) { return "not writable"; }
  TempFolder folder;
  write_file(folder.file("case.tilebc"), bytes);
  ProcessResult run = run_process({disassembler, folder.file("case.tilebc")}, {}, 60);
  return run.exit_code == 0 ? "accepted" : run.err.empty() ? "rejected" : run.err;
}

TEST(Rules, NvidiaAgrees) {
  std::string why;
  auto assembler = locate_assembler("sm_90", &why);
  if (!assembler && std::getenv("TESSERA_REQUIRE_TILEIRAS")) FAIL() << why;
  if (!assembler) GTEST_SKIP() << why;
  const std::string disassembler = assembler->path.substr(0, assembler->path.rfind('/')) + "/tileirdisasm";
  if (!is_executable(disassembler)) GTEST_SKIP() << "there is no tileirdisasm beside " << assembler->path;
  std::vector<Question> questions;
  for (const auto& rule : ir::testing::read_rules()) {
    questions.push_back({rule.accept, "", ""});
    for (const auto& reject : rule.rejects)
      questions.push_back({ir::testing::broken(rule, reject), reject.message, ""});
  }
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      for (std::size_t q = next++; q < questions.size(); q = next++)
        questions[q].answer = ask(disassembler, questions[q].program);
    });
  for (auto& t : threads) t.join();
  int asked = 0;
  for (const Question& q : questions) {
    if (q.answer == "not writable") continue;
    ++asked;
    if (q.message.empty()) {
      EXPECT_EQ(q.answer, "accepted") << ::testing::PrintToString(q.program);
    } else if (!is_ours(q.message)) {
      EXPECT_NE(q.answer, "accepted") << q.message << "\n" << ::testing::PrintToString(q.program);
    }
  }
  EXPECT_GT(asked, 150);
}

}  // namespace
}  // namespace tessera::tileiras

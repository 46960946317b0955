// Cached facts about recordings: found by the same recording, build, target, hints and assembler, and by nothing else.
#include "jit/store/code_stores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>

#include "jit/rig.hpp"
#include "jit/store/code_key.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/passes/predicates.hpp"

using namespace tessera;
using namespace tessera::jit;
using analysis::ArgRole;
using analysis::LaunchContract;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

/// y[0] = number, with a check and a loop; every part that a test may want to be different has a parameter.
struct Parts {
  int number = 1;
  const char* message = "a message";
  const char* file = "here.cpp";
  std::uint32_t line = 10;
  const char* entry = "entry";
  ir::Elem element = ir::Elem::I32;
  bool unsigned_loop = false;
  bool swapped = false;
  std::optional<std::uint64_t> divisor = {};
};

std::unique_ptr<ir::Module> module_of(const Parts& p = {}) {
  auto module = std::make_unique<ir::Module>();
  ir::Function& f = module->add_function(p.entry);
  f.loc = {p.file, "f", 1, 0};
  ir::Value pointer = f.body().add_arg(ir::Type::tile(ir::Type::pointer(ir::Type::element(p.element)), {}));
  ir::Builder b(f.body());
  b.loc = {p.file, "f", p.line, 3};
  if (p.divisor) {
    pointer = b.create(ir::Op::Assume, {pointer}, {pointer.type()},
                       {{ir::AttrName::predicate, ir::DivByAttr{*p.divisor, {}, {}}}})
                  ->result();
  }
  const std::int64_t shape[] = {4};
  b.create(ir::Op::Assert, {b.constant_int(ir::Elem::I1, 1, shape)}, {},
           {{ir::AttrName::message, std::string(p.message)}});
  const ir::Value one = b.constant_int(ir::Elem::I32, 1), two = b.constant_int(ir::Elem::I32, 2);
  ir::Operation* loop =
      b.create(ir::Op::For, {p.swapped ? two : one, p.swapped ? one : two, one}, std::initializer_list<ir::Type>{});
  if (p.unsigned_loop) loop->set_attr(ir::AttrName::unsignedCmp, ir::UnitAttr{});
  ir::Block& body = loop->add_region();
  body.add_arg(one.type());
  ir::Builder in_loop(body);
  in_loop.create(ir::Op::Continue, {}, {});
  jit_rig::store_and_return(b, pointer, p.number, p.element);
  return module;
}

LaunchContract contract_of() {
  LaunchContract c;
  c.args = {{ArgRole::Base, 0, -1}};
  c.tensors = {{0, 0, true, true, true}};
  return c;
}

TEST(RecordingKey, IsOfAllThatIsRecorded) {
  std::set<CacheKey> keys;
  const auto add = [&](const Parts& p) { return keys.insert(recording_key(*module_of(p), contract_of())).second; };
  EXPECT_TRUE(add({}));
  EXPECT_FALSE(add({})) << "an equal module made anew";
  EXPECT_EQ(keys.count(recording_key(*ir::clone(*module_of()), contract_of())), 1u);
  EXPECT_TRUE(add({.number = 2}));
  EXPECT_TRUE(add({.message = "another"}));
  EXPECT_TRUE(add({.file = "there.cpp"}));
  EXPECT_TRUE(add({.line = 11}));
  EXPECT_TRUE(add({.entry = "other"}));
  EXPECT_TRUE(add({.element = ir::Elem::I64}));
  EXPECT_TRUE(add({.unsigned_loop = true}));
  EXPECT_TRUE(add({.swapped = true}));
  EXPECT_TRUE(add({.divisor = 4}));
  EXPECT_TRUE(add({.divisor = 8}));
}

TEST(RecordingKey, IsOfThePromisesToo) {
  std::set<CacheKey> keys;
  const auto module = module_of();
  const auto add = [&](const std::function<void(LaunchContract&)>& change) {
    LaunchContract c = contract_of();
    change(c);
    return keys.insert(recording_key(*module, c)).second;
  };
  EXPECT_TRUE(add([](LaunchContract&) {}));
  EXPECT_TRUE(add([](LaunchContract& c) { c.args[0].role = ArgRole::Value; }));
  EXPECT_TRUE(add([](LaunchContract& c) { c.args[0].tensor = 1; }));
  EXPECT_TRUE(add([](LaunchContract& c) { c.args.push_back({}); }));
  EXPECT_TRUE(add([](LaunchContract& c) { c.tensors[0].written = false; }));
  EXPECT_TRUE(add([](LaunchContract& c) { c.tensors[0].exclusive = false; }));
  EXPECT_TRUE(add([](LaunchContract& c) { c.tensors[0].nonempty = false; }));
  EXPECT_TRUE(add([](LaunchContract& c) { c.pieces_of_tensor = 0; }));
  EXPECT_TRUE(add([](LaunchContract& c) { c.piece = {64}; }));
  EXPECT_TRUE(add([](LaunchContract& c) { c.wide_grid = true; }));
  EXPECT_TRUE(add([](LaunchContract& c) { c.equal_args = {{1, 4}}; }));
}

TEST(RecordingKey, IsOfAnyModuleEvenOneThatDoesNotVerify) {
  const auto module = module_of();
  ir::Operation* const last = module->functions[0]->body().back();
  last->move_before(module->functions[0]->body().front());  // a terminator first
  EXPECT_NE(recording_key(*module, contract_of()), recording_key(*module_of(), contract_of()));
}

/// A cache and an assembler of its own per test; the assembler only reports its version.
class RecordingNotesTest : public testing::Test {
 protected:
  RecordingNotesTest() {
    set("TESSERA_CACHE_DIR", folder_ + "/cache");
    become("13.5");
  }
  ~RecordingNotesTest() override {
    for (const char* name : {"TESSERA_CACHE_DIR", "TESSERA_TILEIRAS", "TESSERA_CACHE"}) unsetenv(name);
  }
  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
  void become(const std::string& release) {
    const std::string path = folder_ + "/tileiras-" + release;
    jit_rig::write_assembler(path, "exit 1", release);
    set("TESSERA_TILEIRAS", path);
  }
  static passes::Target gpu() {
    passes::Target t;
    t.sm = 90;
    t.num_sms = 132;
    return t;
  }
  static CacheKey cubin_name() { return Sha256().add("a cubin").finish(); }
  static CachedCubin cubin() {
    CachedCubin c;
    c.cubin.assign(100, std::byte{7});
    c.gpu = "sm_90";
    c.warnings = "it said something";
    return c;
  }
  static CodeShape shape() {
    CodeShape s;
    s.identity = Sha256().add("what it follows from").finish();
    s.abi.entry = "entry";
    s.abi.num_args = 3;
    s.abi.programmatic_launch = true;
    s.abi.launch_flags = true;
    s.abi.early_reads = {2, 0};
    s.abi.early_alone = 1;
    s.abi.persistent_blocks = 264;
    s.form = Form::Fallback;
    s.abi.checks = {{"x must not be negative", {"kernel.cpp", "careful", 12, 5}}, {"", {}}};
    return s;
  }
  /// The conditions of a module of which every launch is asked something.
  static analysis::LaunchPredicates conditions() {
    return analysis::Facts::analyze(*module_of(), contract_of(), passes::predicate_table()).predicates();
  }
  static RecordingNotes notes(const Parts& p = {}, const LaunchContract& c = contract_of()) {
    return *RecordingNotes::of(*module_of(p), c);
  }
  static bool has_code(const RecordingNotes& n, std::uint64_t held = 5, const passes::Target& target = gpu(),
                       const std::string& hints = "") {
    const auto place = n.place(held, target, hints);
    return place && n.code(*place).has_value();
  }
  void keep_all() const {
    notes().keep(conditions());
    notes().keep(*notes().place(5, gpu(), ""), shape(), cubin_name());
    ASSERT_TRUE(DiskCache::of_user()->store(cubin_name(), cubin()));
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& f : fs::directory_iterator(folder_ + "/cache/kernels")) {
      if (f.path().extension() == ".tsn") found.push_back(f.path());
    }
    return found;
  }
  jit_rig::Folder own_{"notes"};
  const std::string& folder_ = own_.path;
};

TEST_F(RecordingNotesTest, WhatIsKeptIsFound) {
  EXPECT_FALSE(notes().predicates().has_value());
  EXPECT_FALSE(has_code(notes()));
  keep_all();
  ASSERT_TRUE(notes().predicates().has_value());
  EXPECT_EQ(notes().predicates()->bytes(), conditions().bytes());
  const auto known = notes().code(*notes().place(5, gpu(), ""));
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->code.cubin, cubin().cubin);
  EXPECT_EQ(known->code.warnings, "it said something");
  const CodeShape expected = shape();
  EXPECT_EQ(known->shape.identity, expected.identity);
  EXPECT_EQ(known->shape.abi.entry, "entry");
  EXPECT_EQ(known->shape.abi.num_args, 3);
  EXPECT_TRUE(known->shape.abi.programmatic_launch);
  EXPECT_TRUE(known->shape.abi.launch_flags);
  EXPECT_EQ(known->shape.abi.early_reads, (std::vector<int>{2, 0}));
  EXPECT_EQ(known->shape.abi.early_alone, 1);
  EXPECT_EQ(known->shape.abi.persistent_blocks, 264);
  EXPECT_EQ(known->shape.form, Form::Fallback);
  ASSERT_EQ(known->shape.abi.checks.size(), 2u);
  EXPECT_EQ(known->shape.abi.checks[0].message, "x must not be negative");
  EXPECT_STREQ(known->shape.abi.checks[0].where.file, "kernel.cpp");
  EXPECT_STREQ(known->shape.abi.checks[0].where.function, "careful");
  EXPECT_EQ(known->shape.abi.checks[0].where.line, 12u);
  EXPECT_EQ(known->shape.abi.checks[0].where.column, 5u);
  EXPECT_FALSE(known->shape.abi.checks[1].where.known());
}

TEST_F(RecordingNotesTest, AnythingElseMisses) {
  keep_all();
  EXPECT_FALSE(notes({.number = 2}).predicates().has_value()) << "another recording";
  EXPECT_FALSE(has_code(notes({.line = 11}))) << "another line";
  LaunchContract wide = contract_of();
  wide.wide_grid = true;
  EXPECT_FALSE(notes({}, wide).predicates().has_value()) << "other promises";
  EXPECT_FALSE(has_code(notes(), 4)) << "other obligations hold";
  passes::Target other = gpu();
  other.sm = 100;
  EXPECT_FALSE(has_code(notes(), 5, other));
  other = gpu();
  other.num_sms = 114;
  EXPECT_FALSE(has_code(notes(), 5, other));
  other = gpu();
  other.bytecode_minor = 3;
  EXPECT_FALSE(has_code(notes(), 5, other));
  EXPECT_FALSE(has_code(notes(), 5, gpu(), "warps=8")) << "other hints";
  const std::vector<std::byte> another(20, std::byte{1});
  const auto of_another = RecordingNotes::of(*module_of(), contract_of(), another);
  EXPECT_FALSE(of_another->predicates().has_value()) << "another build of the compiler";
  EXPECT_FALSE(has_code(*of_another));
  become("13.4");
  EXPECT_FALSE(has_code(notes())) << "another assembler";
  EXPECT_TRUE(notes().predicates().has_value()) << "which has no part in them";
  become("13.5");
  set("TESSERA_TILEIRAS", folder_ + "/./tileiras-13.5");  // looked up once per process and name
  EXPECT_FALSE(has_code(notes())) << "an assembler that was installed anew";
}

TEST_F(RecordingNotesTest, AreNotKeptWithoutANameOfTheBuildOrACache) {
  EXPECT_FALSE(RecordingNotes::of(*module_of(), contract_of(), {}).has_value());
  set("TESSERA_CACHE", "0");
  EXPECT_FALSE(RecordingNotes::of(*module_of(), contract_of()).has_value());
}

TEST_F(RecordingNotesTest, DamagedOnesAreForgotten) {
  keep_all();
  ASSERT_EQ(files().size(), 2u);
  for (const fs::path& file : files()) {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(70);
    f.put('\x55');
  }
  EXPECT_FALSE(notes().predicates().has_value());
  EXPECT_FALSE(has_code(notes()));
  EXPECT_TRUE(files().empty());
  keep_all();
  EXPECT_TRUE(has_code(notes())) << "and found out again";
}

TEST_F(RecordingNotesTest, ANoteOfAnotherKindIsNotRead) {
  keep_all();
  const std::vector<fs::path> two = files();
  ASSERT_EQ(two.size(), 2u);
  fs::rename(two[0], folder_ + "/aside");
  fs::rename(two[1], two[0]);
  fs::rename(folder_ + "/aside", two[1]);
  EXPECT_FALSE(notes().predicates().has_value());
  EXPECT_FALSE(has_code(notes()));
}

TEST_F(RecordingNotesTest, ANoteThatCannotBeIsNotRead) {
  keep_all();
  const auto kept = [&](const std::function<void(CodeShape&)>& change) {
    CodeShape s = shape();
    change(s);
    notes().keep(*notes().place(5, gpu(), ""), s, cubin_name());
    return has_code(notes());
  };
  EXPECT_TRUE(kept([](CodeShape&) {}));
  EXPECT_TRUE(kept([](CodeShape& s) { s.abi.persistent_blocks = 0x7FFFFFFF; }));
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.persistent_blocks = 0; }));
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.persistent_blocks = -1; }));
  EXPECT_TRUE(kept([](CodeShape& s) { s.form = Form::Bare; }));
  EXPECT_FALSE(kept([](CodeShape& s) { s.form = static_cast<Form>(all_forms().size()); }));
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.pieces = 0; }));
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.num_args = -1; }));
  EXPECT_TRUE(kept([](CodeShape& s) { s.abi.early_reads = {s.abi.num_args - 1}; }));
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.early_reads = {s.abi.num_args}; }));
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.early_reads = {-1}; }));
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.launch_flags = false; }))
      << "which tensors have a writer in flight is only known from the launch flags";
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.early_reads.assign(calling::kMaxEarlyReads + 1, 0); }));
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.early_alone = -1; }));
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.early_alone = 3; })) << "of two early reads";
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.early_reads.clear(); })) << "which one is read alone?";
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.num_args = 1 << 20; }));
  EXPECT_FALSE(kept([](CodeShape& s) { s.abi.entry.clear(); }));
}

/// Any bytes with a right checksum: read as nothing or as something that can be run, never as a crash.
TEST_F(RecordingNotesTest, NoBytesAreTooWrong) {
  const std::vector<std::byte> right = conditions().bytes();
  std::mt19937 random(1);
  const std::vector<std::uint64_t> slots(3, 5);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> wrong = right;
    for (int n = 0; n < 1 + i % 4; ++n) wrong[random() % wrong.size()] = static_cast<std::byte>(random());
    if (i % 5 == 0) wrong.resize(random() % (wrong.size() + 1));
    const auto read = analysis::LaunchPredicates::read(wrong);
    if (!read) continue;
    (void)read->evaluate(slots);
    (void)read->slot_mask(random() % 4);
  }
}

TEST_F(RecordingNotesTest, ANoteWithoutItsCubinIsNoCode) {
  keep_all();
  fs::remove(folder_ + "/cache/kernels/" + hex(cubin_name()) + ".tsk");
  EXPECT_FALSE(has_code(notes()));
  ASSERT_TRUE(DiskCache::of_user()->store(cubin_name(), cubin()));
  EXPECT_TRUE(has_code(notes()));
}

}  // namespace

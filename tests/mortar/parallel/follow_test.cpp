// Ranks that know each other only through meshes and messages, as processes do: each has a thread, a mesh and a model
// of its own. tests/mortar/processes_test.py has processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/rounds.hpp"
#include "engine/calls.hpp"
#include "host/expect_error.hpp"
#include "mortar/checkpoint.hpp"
#include "mortar/errors.hpp"
#include "mortar/files/model_files.hpp"
#include "mortar/parallel/ranks.hpp"
#include "tessera/base/error.hpp"
#include "tessera/mesh.hpp"
#include "tessera/mesh/communicator.hpp"
#include "tessera/mesh/processes.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace mortar::test {
namespace THIS_FILE {

using testing::HasSubstr;

std::string text_of_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const tessera::Error& error) { return error.message(); } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

/// The ranks from 1 on load their parts and follow; rank 0 is the caller's.
class Group {
 public:
  using Load = std::function<Model(const std::vector<tessera::Mesh>& own)>;
  Group(int ranks, const Load& of_first, const Load& of_others)
      : Group(tessera::Mesh::threads(ranks), of_first, of_others) {}
  Group(std::vector<tessera::Mesh> of_ranks, const Load& of_first, const Load& of_others)
      : meshes(std::move(of_ranks)), errors(meshes.size()) {
    for (std::size_t rank = 1; rank < meshes.size(); ++rank)
      threads_.emplace_back(
          [this, rank, of_others] { errors[rank] = text_of_error([&] { follow(of_others({meshes[rank]})); }); });
    error = text_of_error([&] { first = std::make_unique<Model>(of_first({meshes[0]})); });
  }
  explicit Group(int ranks, const SharedModel& shared, std::int64_t max_batch = 1)
      : Group(ranks, loader(shared, max_batch), loader(shared, max_batch)) {}
  static Load loader(const SharedModel& shared, std::int64_t max_batch = 1, bool exact = true) {
    return [=](const auto& own) { return shared.load(own, exact, max_batch); };
  }
  ~Group() { end(); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Model take() { return std::move(*std::exchange(first, nullptr)); }
  /// Waits for the followers.
  void end() {
    first.reset();
    threads_.clear();
  }

  std::vector<tessera::Mesh> meshes;
  std::unique_ptr<Model> first;     ///< rank 0's
  std::string error;                ///< of loading it
  std::vector<std::string> errors;  ///< of the followers; empty: it ended as it should

 private:
  std::vector<std::jthread> threads_;
};

/// Greedy and sampled; penalties, biases, counts, masks, log-probabilities: each call with each of its fields.
std::vector<Request> requests_of_all_kinds() {
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < 6; ++i) {
    Request r = some_request(1 + 23 * i, 9 + i, i);
    r.sampling.greedy = i % 2 == 0;
    if (i % 3 == 1) r.sampling.repetition_penalty = 1.3F, r.sampling.logit_bias = {{7, 2.5F}, {9, -1.0F}};
    if (i == 2) r.sampling.frequency_penalty = 0.7F, r.sampling.presence_penalty = 0.4F;
    if (i == 3) r.allowed_ids = {1, 5, 7, 11, 13, 300};
    r.logprobs = i % 2 == 0 ? 2 : -1;
    requests.push_back(std::move(r));
  }
  return requests;
}
using Bits = std::vector<std::uint32_t>;
Bits bits_of(const Heard& heard) {
  Bits bits;
  for (const Token& token : heard.tokens) {
    bits.push_back(static_cast<std::uint32_t>(token.id));
    if (token.chosen) bits.push_back(std::bit_cast<std::uint32_t>(token.chosen->logprob));
    for (const TokenLogprob& top : token.top) bits.push_back(std::bit_cast<std::uint32_t>(top.logprob));
  }
  return bits;
}

TEST(MortarFollow, TokensAreThoseOfOneDevice) {
  const std::vector<std::pair<SharedModel, int>> models = {{{"dense-tied"}, 2},
                                                           {{"dense-tied"}, 4},
                                                           {{"moe"}, 2},
                                                           {{"moe"}, 4},
                                                           {{"random FP8", small_config(false, true)}, 2},
                                                           {{"random FP8", small_config(false, true)}, 4}};
  for (std::size_t i = tessera::test::first_of(3); i < models.size(); i += tessera::test::one_in(3)) {
    const auto& [shared, ranks] = models[i];
    SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks");
    const std::vector<Request> requests = requests_of_all_kinds();
    std::vector<Bits> expected;
    Engine one(shared.on_one_device(true), {.prefill_tokens = 24});
    for (const Request& r : requests) expected.push_back(bits_of(answer(one, r)));
    Group group(ranks, shared, 3);
    ASSERT_EQ(group.error, "");
    {
      Engine engine(group.take(), {.max_batch = 3, .prefill_tokens = 24, .kv_tokens = 5 * 64});
      if (shared.name == "dense-tied") engine.warm_up();
      std::vector<Heard> heard(requests.size());
      for (std::size_t i = 0; i < requests.size(); ++i) {
        engine.submit(requests[i], heard[i].listener());
        engine.step();
      }
      engine.run();
      const SequenceId dropped = engine.submit(some_request(5, 100, 9), [](const Token&) {});
      for (int i = 0; i < 3; ++i) engine.step();
      engine.cancel(dropped);  // with a step that was launched ahead
      engine.run();
      for (std::size_t i = 0; i < heard.size(); ++i) EXPECT_EQ(bits_of(heard[i]), expected[i]) << "request " << i;
      EXPECT_GT(engine.stats().steps_ahead, 0);
      EXPECT_GT(engine.stats().masked_rows, 0);
      const std::vector<TokenId> ids = some_ids(70, 3);
      EXPECT_EQ(engine.logits(ids), one.logits(ids));
      EXPECT_EQ(engine.log_likelihoods(ids), one.log_likelihoods(ids));
    }
    group.end();
    for (const std::string& error : group.errors) EXPECT_EQ(error, "");
  }
}

/// A process has its part alone.
TEST(MortarFollow, EachProcessLoadsItsPart) {
  Group group(2, {"dense-untied"});
  ASSERT_EQ(group.error, "");
  const Model& model = *group.first;
  ASSERT_EQ(model.parts.size(), 1U);
  EXPECT_TRUE(model.weights.layers.empty());
  EXPECT_EQ(model.parts[0].weights.layers.size(), static_cast<std::size_t>(model.config.layers));
  const std::int64_t heads = model.config.attention.heads + 2 * model.config.attention.kv_heads;
  EXPECT_EQ(model.parts[0].weights.layers[0].qkv.values.dim(0), heads * model.config.attention.head_dim / 2);
}

/// The message of the end comes whatever rank 0 does with its model.
TEST(MortarFollow, FollowersEndWithRankZero) {
  {
    Group group(2, {"dense-tied"});
    group.end();
    EXPECT_EQ(group.errors[1], "") << "no engine was made";
  }
  Group group(2, {"dense-tied"});
  EXPECT_THROW(Engine(group.take(), {.kv_tokens = std::int64_t{1} << 50}), CapacityError);
  group.end();
  EXPECT_EQ(group.errors[1], "") << "the engine could not be made";
}

TEST(MortarFollow, OnlyOthersThanRankZeroFollow) {
  Group group(2, {"dense-tied"});
  EXPECT_ERROR(RequestError, follow(group.take()), "rank 1 or later");
  EXPECT_ERROR(RequestError, follow(SharedModel{"dense-tied"}.on_one_device(false)), "rank 1 or later");
}

// -- what is wrong at the start ---------------------------------------------------------------------------------------

/// Counts the reports of its progress: loading has none before it begins.
struct Watched {
  ModelOptions options = {.device = tessera::Device::cpu(), .max_context = 256, .exact = true};
  std::string folder = test_model("dense-tied").string();
  std::shared_ptr<std::atomic<int>> loaded = std::make_shared<std::atomic<int>>(0);

  Group::Load loader() const {
    return [*this](const auto& own) {
      ModelOptions used = options;
      used.meshes = own;
      used.progress = [count = loaded](const LoadProgress&) { ++*count; };
      return mortar::load(folder, used);
    };
  }
};

/// Both ranks of a group say `expected`, and nothing has been loaded.
void expect_at_the_start(const Watched& first, const Watched& others, const std::string& expected,
                         std::vector<tessera::Mesh> meshes = tessera::Mesh::threads(2)) {
  SCOPED_TRACE(expected);
  Group group(std::move(meshes), first.loader(), others.loader());
  EXPECT_THAT(group.error, HasSubstr(expected));
  group.end();
  for (std::size_t rank = 1; rank < group.errors.size(); ++rank) EXPECT_THAT(group.errors[rank], HasSubstr(expected));
  EXPECT_EQ(*first.loaded, 0);
  EXPECT_EQ(*others.loaded, 0);
}

TEST(MortarFollow, EqualFilesAndOptionsAreAccepted) {
  const Folder copied("dense-tied");
  Watched first, other;
  other.folder = copied.path().string();
  Group group(2, first.loader(), other.loader());
  EXPECT_EQ(group.error, "");
  group.end();
  EXPECT_EQ(group.errors[1], "");
  EXPECT_GT(*first.loaded, 0);
  EXPECT_GT(*other.loaded, 0);
}

TEST(MortarFollow, AnotherModelIsNamedBeforeItIsLoaded) {
  const Watched first;
  Watched other;
  other.folder = test_model("dense-untied").string();
  expect_at_the_start(first, other, "rank 1 of 2: expected the config.json of rank 0, found another one");
  const Folder trained("dense-tied");
  const Checkpoint files(trained.path());
  const FileTensor& tensor = files.files()[0]->tensors().back();
  std::string bytes = trained.read("model.safetensors");
  bytes[tensor.begin + 1] = static_cast<char>(bytes[tensor.begin + 1] ^ 1);
  trained.write("model.safetensors", bytes);
  other.folder = trained.path().string();
  expect_at_the_start(first, other, "rank 1 of 2: expected the weights of rank 0, found another one");
}

TEST(MortarFollow, OtherOptionsAreNamedBeforeAnythingIsLoaded) {
  const Watched first;
  const auto expect = [&](const std::function<void(ModelOptions&)>& change, const std::string& expected) {
    Watched other;
    change(other.options);
    expect_at_the_start(first, other, "rank 1 of 2: expected " + expected);
  };
  expect([](ModelOptions& o) { o.exact = false; }, "exact (0: off, 1: on) = 1, as rank 0 has it, found 0");
  expect([](ModelOptions& o) { o.max_context = 128; }, "max_context = 256, as rank 0 has it, found 128");
  expect([](ModelOptions& o) { o.kv_type = KvType::Fp8; }, "kv_type = 0, as rank 0 has it, found 1");
  expect([](ModelOptions& o) { o.max_batch = 3; }, "max_batch = 1, as rank 0 has it, found 3");
  expect([](ModelOptions& o) { o.prefill_tokens = 64; }, "prefill_tokens = ");
  expect([](ModelOptions& o) { o.random_weights = 7; },
         "random_weights (0: off, 1: on) = 0, as rank 0 has it, found 1");
  Watched seven, eight;
  seven.options.random_weights = 7, eight.options.random_weights = 8;
  expect_at_the_start(seven, eight, "rank 1 of 2: expected the seed of random_weights = 7, as rank 0 has it, found 8");
}

/// A folder that is not there, and files that are damaged.
TEST(MortarFollow, ARankThatCannotReadItsFilesIsNamed) {
  const Watched sound;
  Watched fails;
  fails.folder = "/nowhere/at/all";
  expect_at_the_start(sound, fails, "/nowhere/at/all");
  expect_at_the_start(fails, sound, "/nowhere/at/all");
  const Folder shorter("dense-tied");
  std::string bytes = shorter.read("model.safetensors");
  bytes.pop_back();
  shorter.write("model.safetensors", bytes);
  fails.folder = shorter.path().string();
  expect_at_the_start(sound, fails, "model.safetensors");
  Group group(2, sound.loader(), fails.loader());
  EXPECT_THAT(group.error, HasSubstr("rank 1: "));
}

/// A communicator that changes what this rank passes to the others in gathers of at least `least` bytes.
class Damaging final : public tessera::mesh::Communicator {
 public:
  Damaging(std::shared_ptr<Communicator> real, std::int64_t least) : real_(std::move(real)), least_(least) {}
  int size() const noexcept override { return real_->size(); }
  int first() const noexcept override { return real_->first(); }
  int locals() const noexcept override { return real_->locals(); }
  const char* name() const noexcept override { return real_->name(); }
  void enqueue(const tessera::mesh::CollectiveCall& call) override {
    using namespace tessera::runtime;
    const auto& rank = call.ranks.front();
    if (call.kind == tessera::mesh::Collective::AllGather && call.count * tessera::size_of(call.element) >= least_) {
      const auto work = host_work([at = rank.in_offset](const LaunchContext& context) {
        context.accesses[0].storage->data()[at + 3] ^= std::byte{0x40};  // the exponent of a number
      });
      const std::vector<Access> accesses{{rank.in, AccessMode::ReadWrite}};
      rank.stream.core()->submit({work, {}, {}, accesses, "damage", {}});
    }
    real_->enqueue(call);
  }
  std::shared_ptr<Communicator> split(int colour, tessera::SourceLocation where) override {
    return real_->split(colour, where);
  }
  std::shared_ptr<Communicator> companion(tessera::SourceLocation where) override { return real_->companion(where); }
  void abort(const tessera::mesh::GroupFailure& failure) noexcept override { real_->abort(failure); }
  std::optional<tessera::mesh::GroupFailure> failure() const override { return real_->failure(); }

 private:
  std::shared_ptr<Communicator> real_;
  std::int64_t least_;
};

/// load() makes Mesh::check_links: damage of the first message is another version, that of a large one a bad link.
TEST(MortarFollow, LinksAreCheckedBeforeAnythingIsLoaded) {
  const Watched first, other;
  for (const auto& [least, expected] : {std::pair(std::int64_t{1}, "runs another version of Tessera than rank"),
                                        std::pair(std::int64_t{1} << 20, "all_gather of 4194304 bytes")}) {
    std::vector<tessera::Mesh> meshes;
    for (auto& real : tessera::mesh::thread_communicators(2, 1, 20'000)) {
      std::shared_ptr<tessera::mesh::Communicator> used = real;
      if (real->first() == 1) used = std::make_shared<Damaging>(real, least);
      meshes.push_back(tessera::Mesh::over(used, {tessera::Device::cpu()}));
    }
    expect_at_the_start(first, other, expected, std::move(meshes));
  }
}

/// An engine exists when the others have their caches: here, one has no memory for its own.
TEST(MortarFollow, AnEngineIsReadyWithItsFollowers) {
  const auto meshes = tessera::Mesh::threads(2);
  std::jthread other([&] {
    const Model model = SharedModel{"dense-tied"}.load({meshes[1]}, true);
    (void)model.messages->receive();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    model.messages->abort("no memory for the cache");
  });
  EXPECT_ERROR(RanksError, Engine(SharedModel{"dense-tied"}.load({meshes[0]}, true), {}),
               "rank 1: no memory for the cache");
}

// -- a group that ends ------------------------------------------------------------------------------------------------

/// A rank that ends the group between two steps of rank 0, as one that has failed does.
TEST(MortarFollow, AGroupThatEndsWhileItDecodes) {
  for (const std::size_t rank : {0U, 1U}) {
    Group group(2, {"dense-tied"});
    Engine engine(group.take(), {});
    engine.submit(some_request(10, 200, 1), [](const Token&) {});
    for (int i = 0; i < 5; ++i) engine.step();
    group.meshes[rank].abort("no memory is left");
    const std::string expected = "rank " + std::to_string(rank) + ": no memory is left";
    EXPECT_ERROR(RanksError, engine.run(), expected.c_str());
    EXPECT_ERROR(RanksError, engine.run(), expected.c_str());
    group.end();
    EXPECT_THAT(group.errors[1], HasSubstr(expected));
  }
}

/// As the watch of processes does it: serve() waits for requests meanwhile.
TEST(MortarFollow, AGroupThatEndsWhileItIsIdle) {
  Group group(2, {"dense-tied"});
  Engine engine(group.take(), {});
  std::stop_source stop;
  auto served = std::async(std::launch::async, [&] { return text_of_error([&] { engine.serve(stop.get_token()); }); });
  EXPECT_EQ(served.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  group.meshes[0].abort("rank 1 was killed");
  EXPECT_EQ(served.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  stop.request_stop();
  EXPECT_THAT(served.get(), HasSubstr("rank 1 was killed"));
  group.end();
  EXPECT_THAT(group.errors[1], HasSubstr("rank 1 was killed"));
}

// -- messages --------------------------------------------------------------------------------------------------------

TEST(MortarMessages, AnyNumberOfBytesArrives) {
  const auto meshes = tessera::Mesh::threads(2);
  std::vector<std::vector<std::byte>> received;
  std::jthread other([&] {
    Messages messages(tessera::mesh::companion(meshes[1]));
    messages.meet();
    for (int i = 0; i < 6; ++i) received.push_back(messages.receive());
    EXPECT_TRUE(messages.receive().empty()) << "the end";
  });
  std::vector<std::vector<std::byte>> sent;
  {
    Messages messages(tessera::mesh::companion(meshes[0]));
    messages.meet();
    for (const std::size_t size : {1U, 2031U, 2032U, 2033U, 5000U, 3'000'000U}) {
      std::vector<std::byte>& bytes = sent.emplace_back(size);
      for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + size);
      messages.send(bytes);
    }
  }
  other.join();
  EXPECT_EQ(received, sent);
}

TEST(MortarMessages, AnotherFormatIsRejected) {
  const auto meshes = tessera::Mesh::threads(2);
  std::jthread other([&] {
    const auto frame = tessera::zeros<tessera::i8>({2048}).sync(meshes[0].stream(0));
    (void)tessera::broadcast(frame, 0, meshes[0]).sync(meshes[0].stream(0));
  });
  Messages messages(meshes[1]);
  EXPECT_ERROR(RanksError, (void)messages.receive(), "do all ranks run the same version of Mortar?");
}

std::vector<std::byte> some_launch() {
  static const std::vector<TokenId> first = {1, 2, 3}, second = {4};
  static const std::vector<PageId> pages = {0, 5};
  std::vector<RowPlan> rows(2);
  rows[0] = {.ids = TokenRange(first, second), .first = 9, .pages = pages, .wants_token = true};
  rows[0].sampling[kSlot] = 3;
  rows[1] = {.ids = second, .first = 70, .pages = pages, .wants_token = true, .stored = true, .after = 1};
  StepRequest request;
  request.rows = rows, request.prompts = 1, request.scores = 4, request.penalised = true, request.how.counted = true;
  return message_of_launch(8, 7, request).bytes();
}

TEST(MortarMessages, ALaunchArrivesAsItWas) {
  const std::vector<std::byte> bytes = some_launch();
  MessageReader message(bytes);
  EXPECT_EQ(message.number<CallKind>(), CallKind::Launch);
  const LaunchCall call = read_launch(message);
  EXPECT_EQ(call.step, 8U);
  EXPECT_EQ(call.before, 7U);
  EXPECT_EQ(call.request.prompts, 1U);
  EXPECT_EQ(call.request.scores, 4);
  EXPECT_TRUE(call.request.penalised && call.request.how.counted);
  EXPECT_FALSE(call.request.masked || call.request.how.greedy);
  ASSERT_EQ(call.request.rows.size(), 2U);
  const RowPlan& row = call.request.rows[0];
  EXPECT_EQ(row.first, 9);
  EXPECT_EQ(row.sampling[kSlot], 3);
  ASSERT_EQ(row.ids.size(), 4U);
  EXPECT_EQ(row.ids[3], 4);
  EXPECT_EQ(row.pages[1], 5);
  EXPECT_EQ(call.request.rows[1].after, 1);
  EXPECT_TRUE(call.request.rows[1].wants_token);
  EXPECT_TRUE(call.request.rows[1].stored && !row.stored);
}

TEST(MortarMessages, AStartArrivesAsItWas) {
  for (int set = 0; set < 4; ++set) {
    const auto is = [set](int i) { return i == set; };
    const StartCall sent{{is(0), is(1), is(2), is(3)}, 77};
    const std::vector<std::byte> bytes = message_of(sent).bytes();
    MessageReader message(bytes);
    EXPECT_EQ(message.number<CallKind>(), CallKind::Start);
    const StartCall call = read_start(message);
    EXPECT_EQ(call.pages, 77);
    EXPECT_EQ(call.numerics.strict, is(0));
    EXPECT_EQ(call.numerics.batch_invariant, is(1));
    EXPECT_EQ(call.numerics.may_dequantize, is(2));
    EXPECT_EQ(call.numerics.fp8_activations, is(3));
  }
}

/// No length in a message is believed.
TEST(MortarMessages, MessagesOfWrongSizesAreRejected) {
  const auto read = [](std::span<const std::byte> bytes) {
    MessageReader message(bytes);
    (void)message.number<CallKind>();
    (void)read_launch(message);
  };
  std::vector<std::byte> bytes = some_launch();
  EXPECT_NO_THROW(read(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(read(std::span(bytes).first(size)), RanksError) << size;
  std::vector<std::byte> longer = bytes;
  longer.push_back({});
  EXPECT_ERROR(RanksError, read(longer), "expected its end after");
  for (std::size_t at = 0; at < bytes.size(); ++at) {  // counts become enormous: it throws, or reads other numbers
    std::vector<std::byte> changed = bytes;
    changed[at] = std::byte{0xff};
    try {
      read(changed);
    } catch (const RanksError&) {}
  }
}

}  // namespace THIS_FILE
}  // namespace mortar::test

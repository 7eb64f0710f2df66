/// Training settings survive their text form bit for bit, and nothing but their text form is read.

#include <bit>
#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "tensors/base/error.hpp"
#include "tensors/training/settings_text.hpp"

namespace zerolock::test {
namespace {

using nlohmann::json;

HeadSettings unusual_head(HeadKind kind, std::int64_t first_token) {
  HeadSettings head;
  head.kind = kind;
  head.restricted_tokens = {first_token, 3, std::numeric_limits<std::int64_t>::max()};
  head.ridge = 0.1 + 0.2;
  head.bottleneck_rank = 7;
  head.bottleneck_trained = true;
  head.adapter_width = 9;
  head.adapter_warm_up = 11;
  return head;
}

/// Settings of which none has its default value.
TrainingSettings unusual_settings() {
  TrainingSettings settings;
  settings.lora = {3, 0.1, true, {"o_proj", "gate_proj", "k_proj"}};
  settings.loss.alpha = 1.0 / 3.0;
  settings.loss.form = LossForm::target_divergence;
  settings.loss.label_smoothing = std::numeric_limits<double>::denorm_min();
  settings.loss.direction = KlDirection::reverse;
  settings.loss.first_chunk_consistency = true;
  settings.loss.inner_head = unusual_head(HeadKind::bottleneck, 5);
  settings.loss.last_head = unusual_head(HeadKind::restricted, 6);
  settings.optimizer.kind = OptimizerKind::sgd;
  settings.optimizer.learning_rate = 0.1 + 1e-17;
  settings.optimizer.inner_learning_rate_scale = std::numeric_limits<double>::max();
  settings.optimizer.schedule = ScheduleKind::inverse_sqrt;
  settings.optimizer.schedule_offset = 1e22;
  settings.optimizer.schedule_windows = std::numeric_limits<std::uint64_t>::max();
  settings.optimizer.beta1 = std::nextafter(0.9, 1.0);
  settings.optimizer.beta2 = std::nextafter(1.0, 0.0);
  settings.optimizer.epsilon = 5e-324;
  settings.optimizer.weight_decay = -0.0;
  settings.optimizer.clip_norm = 2.2250738585072011e-308;
  settings.compute = ComputeType::bf16;
  settings.base = BaseFormat::q4_1;
  settings.recompute = true;
  settings.seed = std::numeric_limits<std::uint64_t>::max();
  settings.trained_stages = {0, 2, std::numeric_limits<std::uint64_t>::max()};
  settings.calibration_rows_max = 123;
  settings.embed_at = EmbedAt::source;
  return settings;
}

void check_same_bits(double read, double written) {
  CHECK(std::bit_cast<std::uint64_t>(read) == std::bit_cast<std::uint64_t>(written));
}

std::string complaint(const std::string& text) {
  try {
    training_settings_from_text("the coordinator's settings", text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

/// What is said of the default settings with one value changed.
std::string complaint_after(const std::string& pointer, const json& value) {
  json document = json::parse(training_settings_text({}));
  document[json::json_pointer(pointer)] = value;
  return complaint(document.dump());
}

}  // namespace

TEST_CASE("every training setting is in the text and comes back") {
  const TrainingSettings written = unusual_settings();
  const std::string text = training_settings_text(written);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(training_settings_text(training_settings_from_text("test", text)) == text);
  const std::string defaults = training_settings_text({});
  CHECK(training_settings_text(training_settings_from_text("test", defaults)) == defaults);

  // If any field were left out, or written in another's place, its value would be the default.
  const json unusual = json::parse(text);
  const json usual = json::parse(defaults);
  for (const char* structure : {"", "/lora", "/loss", "/loss/inner_head", "/loss/last_head", "/optimizer"}) {
    const json::json_pointer place(structure);
    for (const auto& [key, value] : unusual.at(place).items()) {
      INFO(structure << "/" << key);
      CHECK(value != usual.at(place).at(key));
    }
  }
}

TEST_CASE("training settings come back bit for bit") {
  const TrainingSettings written = unusual_settings();
  const TrainingSettings read = training_settings_from_text("test", training_settings_text(written));
  check_same_bits(read.lora.alpha, written.lora.alpha);
  check_same_bits(read.loss.alpha, written.loss.alpha);
  check_same_bits(read.loss.label_smoothing, written.loss.label_smoothing);
  check_same_bits(read.loss.inner_head.ridge, written.loss.inner_head.ridge);
  check_same_bits(read.optimizer.learning_rate, written.optimizer.learning_rate);
  check_same_bits(read.optimizer.inner_learning_rate_scale, written.optimizer.inner_learning_rate_scale);
  check_same_bits(read.optimizer.schedule_offset, written.optimizer.schedule_offset);
  check_same_bits(read.optimizer.beta1, written.optimizer.beta1);
  check_same_bits(read.optimizer.beta2, written.optimizer.beta2);
  check_same_bits(read.optimizer.epsilon, written.optimizer.epsilon);
  check_same_bits(read.optimizer.weight_decay, written.optimizer.weight_decay);
  check_same_bits(read.optimizer.clip_norm.value(), *written.optimizer.clip_norm);
  CHECK(read.lora.targets == written.lora.targets);
  CHECK(read.loss.form == written.loss.form);
  CHECK(read.loss.inner_head.kind == HeadKind::bottleneck);
  CHECK(read.loss.last_head.kind == HeadKind::restricted);
  CHECK(read.loss.last_head.restricted_tokens == written.loss.last_head.restricted_tokens);
  CHECK(read.optimizer.schedule_windows == written.optimizer.schedule_windows);
  CHECK(read.seed == written.seed);
  CHECK(read.trained_stages == written.trained_stages);
  CHECK(read.compute == written.compute);
  CHECK(read.base == written.base);
}

TEST_CASE("stages that are not named and stages that are named empty stay apart") {
  TrainingSettings settings;
  CHECK_FALSE(training_settings_from_text("test", training_settings_text(settings)).trained_stages);
  settings.trained_stages.emplace();
  const auto read = training_settings_from_text("test", training_settings_text(settings)).trained_stages;
  REQUIRE(read.has_value());
  CHECK(read->empty());
}

TEST_CASE("a text that is not exactly training settings is refused by key") {
  using Catch::Contains;
  CHECK_THAT(complaint("{"), Contains("the coordinator's settings: ") && Contains("JSON"));
  CHECK_THAT(complaint("[]"), Contains("not a JSON object"));
  CHECK_THAT(complaint("{}"), Contains("lora is missing"));
  CHECK_THAT(complaint("{\"lora\":{\"rank\":1,\"rank\":2}}"), Contains("\"rank\" twice"));
  CHECK_THAT(complaint_after("/loss/gamma", 1), Contains("loss") && Contains("\"gamma\" is not a setting"));
  CHECK_THAT(complaint_after("/lora", 3), Contains("lora") && Contains("must be an object, is 3"));
  CHECK_THAT(complaint_after("/lora/rank", 4.0), Contains("rank") && Contains("integer"));
  CHECK_THAT(complaint_after("/lora/rank", std::uint64_t{1} << 63U), Contains("rank") && Contains("64 bits"));
  CHECK_THAT(complaint_after("/lora/targets", json::array({"q_proj", 1})), Contains("item 2"));
  CHECK_THAT(complaint_after("/lora/rank_stabilised", 1), Contains("true or false"));
  CHECK_THAT(complaint_after("/seed", -1), Contains("seed") && Contains("non-negative"));
  CHECK_THAT(complaint_after("/optimizer/learning_rate", "fast"),
             Contains("learning_rate") && Contains("number"));
  CHECK_THAT(complaint_after("/optimizer/beta1", nullptr), Contains("beta1") && Contains("null"));
  CHECK_THAT(complaint_after("/optimizer/schedule", "linear"),
             Contains("constant, cosine, inverse-sqrt") && Contains("linear"));
  CHECK_THAT(complaint_after("/loss/inner_head/kind", 1), Contains("inner_head: kind") && Contains("static"));
  CHECK_THAT(complaint_after("/trained_stages", json::array({1, 1})), Contains("twice"));
  CHECK_THAT(complaint(std::string(100'000, '[')), Contains("JSON"));

  std::string huge = training_settings_text({});
  huge.replace(huge.find("16.0"), 4, "1e999");
  CHECK_THAT(complaint(huge), Contains("JSON"));

  json missing = json::parse(training_settings_text({}));
  missing["optimizer"].erase("clip_norm");
  CHECK_THAT(complaint(missing.dump()), Contains("optimizer: clip_norm is missing"));

  TrainingSettings infinite;
  infinite.optimizer.epsilon = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(training_settings_text(infinite), Contains("epsilon is not finite"));
}

}  // namespace zerolock::test

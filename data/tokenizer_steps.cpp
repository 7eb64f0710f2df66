#include "data/tokenizer_steps.hpp"

#include <functional>
#include <string>
#include <string_view>

#include "data/json_members.hpp"
#include "tensors/base/error.hpp"

namespace zerolock {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const JsonObject& step, std::string_view supported) {
  step.refuse("type", "\"" + step.text("type") + "\" is not supported; supported: " + std::string(supported));
}

/// Calls `read` for a step, or for each step of a "Sequence", whose list has the given key.
void for_each_step(const JsonObject& step, const char* list_key,
                   const std::function<void(const JsonObject&)>& read) {
  if (step.text("type") != "Sequence") {
    read(step);
    return;
  }
  for (const json& part : list_member(step, list_key)) read(JsonObject(place_of(step, list_key), part));
}

std::string text_that_is_not_empty(const JsonObject& object, const char* key) {
  std::string text = object.text(key);
  if (text.empty()) object.refuse(key, "must not be empty");
  return text;
}

/// "Replace" of a fixed string; a regular expression as pattern is refused.
ReplaceText read_replace(const JsonObject& step) {
  const JsonObject pattern = step.object("pattern");
  if (pattern.has("Regex")) {
    pattern.refuse("Regex",
                   "\"" + pattern.text("Regex") + "\": replacing by a regular expression is not supported");
  }
  return {text_that_is_not_empty(pattern, "String"), step.text("content")};
}

NormalizerStep read_normalizer_step(const JsonObject& step) {
  const std::string type = step.text("type");
  if (type == "Prepend") return PrependText{step.text("prepend")};
  if (type == "Replace") return read_replace(step);
  if (type == "NFC") return NormalizationForm::C;
  if (type == "NFD") return NormalizationForm::D;
  if (type == "NFKC") return NormalizationForm::KC;
  if (type == "NFKD") return NormalizationForm::KD;
  refuse(step, "Sequence, Prepend, Replace, NFC, NFD, NFKC, NFKD");
}

PatternSplit read_pattern_split(const JsonObject& step) {
  const JsonObject pattern = step.object("pattern");
  if (!pattern.has("Regex"))
    step.refuse("pattern", "must be a \"Regex\"; splitting by other patterns is not supported");
  const std::string expression = pattern.text("Regex");
  const auto known = word_pattern_of(expression);
  if (!known) {
    pattern.refuse("Regex",
                   "\"" + expression + "\" is not supported; supported: those of GPT-2, Llama 3 and Qwen2");
  }
  // The patterns match every character, so keeping the matches and isolating them come to the same.
  const std::string behavior = step.text("behavior");
  const bool invert = step.boolean_or("invert", false);
  if (!(behavior == "Isolated" && !invert) && !(behavior == "Removed" && invert)) {
    step.refuse("behavior", "\"" + behavior + "\" with \"invert\": " + (invert ? "true" : "false") +
                                " is not supported; supported: Isolated, or Removed inverted");
  }
  return {*known};
}

PrependScheme read_prepend_scheme(const JsonObject& step) {
  const auto scheme = optional_text(step, "prepend_scheme");
  // Older files have a switch instead.
  if (!scheme)
    return step.boolean_or("add_prefix_space", true) ? PrependScheme::Always : PrependScheme::Never;
  if (*scheme == "always") return PrependScheme::Always;
  if (*scheme == "first") return PrependScheme::First;
  if (*scheme == "never") return PrependScheme::Never;
  step.refuse("prepend_scheme", "\"" + *scheme + "\" is none of always, first, never");
}

PreTokenizerStep read_pre_tokenizer_step(const JsonObject& step) {
  const std::string type = step.text("type");
  if (type == "ByteLevel") {
    return ByteLevelSplit{step.boolean_or("add_prefix_space", true), step.boolean_or("use_regex", true)};
  }
  if (type == "Digits") return DigitSplit{step.boolean_or("individual_digits", false)};
  if (type == "Split") return read_pattern_split(step);
  if (type == "Metaspace") {
    return MetaspaceSplit{text_that_is_not_empty(step, "replacement"), read_prepend_scheme(step),
                          step.boolean_or("split", true)};
  }
  refuse(step, "Sequence, ByteLevel, Digits, Split, Metaspace");
}

std::size_t read_count(const JsonObject& step, const char* key) {
  const std::int64_t count = step.integer(key);
  if (count < 0) step.refuse(key, "must not be negative");
  return static_cast<std::size_t>(count);
}

DecoderStep read_decoder_step(const JsonObject& step) {
  const std::string type = step.text("type");
  if (type == "Replace") return read_replace(step);
  if (type == "ByteFallback") return DecodeByteFallback{};
  if (type == "Fuse") return FuseTokens{};
  if (type == "Strip") {
    return StripTokens{text_that_is_not_empty(step, "content"), read_count(step, "start"),
                       read_count(step, "stop")};
  }
  if (type == "ByteLevel") return DecodeByteLevel{};
  if (type == "Metaspace") {
    return DecodeMetaspace{text_that_is_not_empty(step, "replacement"),
                           read_prepend_scheme(step) != PrependScheme::Never};
  }
  refuse(step, "Sequence, Replace, ByteFallback, Fuse, Strip, ByteLevel, Metaspace");
}

/// The ids that a template's special token stands for.
std::vector<TokenId> read_template_ids(const JsonObject& step, const std::string& name) {
  const JsonObject token = step.object("special_tokens").object(name.c_str());
  std::vector<TokenId> ids;
  for (const json& id : list_member(token, "ids")) {
    if (!id.is_number_integer()) token.refuse("ids", "must be a list of token ids");
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

SpecialFrame read_template(const JsonObject& step) {
  SpecialFrame frame;
  bool text_seen = false;
  for (const json& item : list_member(step, "single")) {
    const JsonObject part(place_of(step, "single"), item);
    if (part.has("Sequence")) {
      if (text_seen) step.refuse("single", "must hold the text once");
      text_seen = true;
      continue;
    }
    const std::vector<TokenId> ids = read_template_ids(step, part.object("SpecialToken").text("id"));
    auto& side = text_seen ? frame.suffix : frame.prefix;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!text_seen) step.refuse("single", "must hold the text once");
  return frame;
}

}  // namespace

TextNormalizer read_normalizer(const JsonObject& file) {
  std::vector<NormalizerStep> steps;
  if (const auto step = optional_object(file, "normalizer")) {
    for_each_step(*step, "normalizers",
                  [&](const JsonObject& part) { steps.push_back(read_normalizer_step(part)); });
  }
  return TextNormalizer(std::move(steps));
}

PreTokenizer read_pre_tokenizer(const JsonObject& file) {
  std::vector<PreTokenizerStep> steps;
  if (const auto step = optional_object(file, "pre_tokenizer")) {
    for_each_step(*step, "pretokenizers",
                  [&](const JsonObject& part) { steps.push_back(read_pre_tokenizer_step(part)); });
  }
  return PreTokenizer(std::move(steps));
}

SpecialFrame read_post_processor(const JsonObject& file) {
  SpecialFrame frame;
  if (const auto step = optional_object(file, "post_processor")) {
    for_each_step(*step, "processors", [&](const JsonObject& part) {
      const std::string type = part.text("type");
      if (type == "ByteLevel") return;  // it moves offsets, not ids
      if (type != "TemplateProcessing") refuse(part, "Sequence, ByteLevel, TemplateProcessing");
      const SpecialFrame inner = read_template(part);
      frame.prefix.insert(frame.prefix.begin(), inner.prefix.begin(), inner.prefix.end());
      frame.suffix.insert(frame.suffix.end(), inner.suffix.begin(), inner.suffix.end());
    });
  }
  return frame;
}

TokenDecoder read_decoder(const JsonObject& file) {
  std::vector<DecoderStep> steps;
  if (const auto step = optional_object(file, "decoder")) {
    for_each_step(*step, "decoders",
                  [&](const JsonObject& part) { steps.push_back(read_decoder_step(part)); });
  }
  return TokenDecoder(std::move(steps));
}

}  // namespace zerolock

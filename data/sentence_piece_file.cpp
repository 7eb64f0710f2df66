#include <bit>
#include <cstring>
#include <span>

#include "data/sentence_piece_model.hpp"
#include "tensors/base/error.hpp"
#include "tensors/files/mapped_file.hpp"

namespace zerolock {
namespace {

/// One field of a Protocol Buffers message.
struct Field {
  std::uint64_t number = 0;
  std::uint64_t integer = 0;  // of an integer field
  float real = 0;             // of a four-byte field
  std::string_view bytes;     // of a text or message field
};

/// Reads the fields of a message one after another (https://protobuf.dev/programming-guides/encoding). Every
/// length is checked against the bytes that are left.
class MessageReader {
 public:
  MessageReader(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  /// Nothing at the end of the message.
  std::optional<Field> next() {
    if (bytes_.empty()) return std::nullopt;
    const std::uint64_t tag = varint();
    Field field;
    field.number = tag >> 3;
    switch (tag & 7) {
      case 0:
        field.integer = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        std::memcpy(&field.real, take(4).data(), 4);
        break;
      default:
        refuse();
    }
    if (field.number == 0) refuse();
    return field;
  }

 private:
  [[noreturn]] void refuse() const { throw InputError(where_, "not a sentencepiece model"); }

  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size()) refuse();
    const std::string_view taken = bytes_.substr(0, static_cast<std::size_t>(size));
    bytes_.remove_prefix(taken.size());
    return taken;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    refuse();
  }

  std::string_view bytes_;
  const std::string& where_;
};

// The field numbers below are those of sentencepiece_model.proto.

SentencePiece read_piece(std::string_view message, std::size_t id, const std::string& where) {
  SentencePiece piece;
  MessageReader reader(message, where);
  while (const auto field = reader.next()) {
    if (field->number == 1) piece.text = field->bytes;
    if (field->number == 2) piece.score = field->real;
    if (field->number != 3) continue;
    if (field->integer < 1 || field->integer > 6) {
      throw InputError(where, "piece " + std::to_string(id) + " has type " + std::to_string(field->integer) +
                                  "; types go from 1 to 6");
    }
    piece.type = static_cast<PieceType>(field->integer);
  }
  return piece;
}

struct Trainer {
  std::uint64_t model_type = 1;
  bool space_as_suffix = false;
  bool byte_fallback = false;
  std::string unknown_surface = SentencePieceOptions().unknown_surface;
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
};

Trainer read_trainer(std::string_view message, const std::string& where) {
  Trainer trainer;
  MessageReader reader(message, where);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 3:
        trainer.model_type = field->integer;
        break;
      case 24:
        trainer.space_as_suffix = field->integer != 0;
        break;
      case 35:
        trainer.byte_fallback = field->integer != 0;
        break;
      case 44:
        trainer.unknown_surface = field->bytes;
        break;
      case 46:
        trainer.bos_piece = field->bytes;
        break;
      case 47:
        trainer.eos_piece = field->bytes;
        break;
      default:
        break;
    }
  }
  return trainer;
}

void check_trainer(const Trainer& trainer, const std::string& where) {
  constexpr std::string_view names[] = {"Unigram", "BPE", "Word", "Char"};
  if (trainer.model_type != 2) {
    const bool known = trainer.model_type >= 1 && trainer.model_type <= std::size(names);
    throw InputError(
        where, "a sentencepiece model of type " +
                   (known ? std::string(names[trainer.model_type - 1]) : std::to_string(trainer.model_type)) +
                   " is not supported; supported: BPE");
  }
  if (trainer.space_as_suffix) throw InputError(where, "treat_whitespace_as_suffix is not supported");
}

void read_normalizer(std::string_view message, SentencePieceOptions& options, const std::string& where) {
  std::string name;
  bool has_table = false;
  MessageReader reader(message, where);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case 1:
        name = field->bytes;
        break;
      case 2:
        has_table = !field->bytes.empty();
        break;
      case 3:
        options.add_dummy_prefix = field->integer != 0;
        break;
      case 4:
        options.remove_extra_whitespaces = field->integer != 0;
        break;
      case 5:
        if (field->integer == 0) throw InputError(where, "escape_whitespaces: false is not supported");
        break;
      default:
        break;
    }
  }
  if (has_table)
    throw InputError(where, "the normalizer \"" + name + "\" is not supported; supported: identity");
}

}  // namespace

SentencePieceFile read_sentence_piece_file(const std::filesystem::path& file) {
  const auto mapping = MappedFile::open(file);
  const std::string where = file.string();
  const auto bytes = mapping->bytes();
  MessageReader reader({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, where);
  std::vector<SentencePiece> pieces;
  Trainer trainer;
  SentencePieceOptions options;
  while (const auto field = reader.next()) {
    if (field->number == 1) pieces.push_back(read_piece(field->bytes, pieces.size(), where));
    if (field->number == 2) trainer = read_trainer(field->bytes, where);
    if (field->number == 3) read_normalizer(field->bytes, options, where);
  }
  if (pieces.empty()) throw InputError(where, "not a sentencepiece model");
  check_trainer(trainer, where);
  options.byte_fallback = trainer.byte_fallback;
  options.unknown_surface = trainer.unknown_surface;
  return {SentencePieceModel(std::move(pieces), std::move(options), where), trainer.bos_piece,
          trainer.eos_piece};
}

}  // namespace zerolock

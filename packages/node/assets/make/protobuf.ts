/** One field of a protobuf message: a number, or the bytes of a text, a message or a packed list. */
export type Field =
  | { readonly number: number; readonly value: bigint }
  | { readonly number: number; readonly bytes: Uint8Array };

/** The fields of a message in their order. ONNX uses no other wire types than these in what we read. */
export function readFields(message: Uint8Array): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at];
      if (byte === undefined) throw new Error("the message ends within a number");
      at += 1;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = (length: number): Uint8Array => {
    at += length;
    return message.subarray(at - length, at);
  };
  while (at < message.length) {
    const tag = varint();
    const number = Number(tag >> 3n);
    const wire = Number(tag & 7n);
    if (wire === 0) fields.push({ number, value: varint() });
    else if (wire === 2) fields.push({ number, bytes: take(Number(varint())) });
    else throw new Error(`field ${number} has wire type ${wire}, which is not read here`);
  }
  return fields;
}

/** The texts of every field of that number. */
export function textsOf(fields: readonly Field[], number: number): readonly string[] {
  return fields.flatMap((field) =>
    field.number === number && "bytes" in field ? [Buffer.from(field.bytes).toString()] : [],
  );
}
